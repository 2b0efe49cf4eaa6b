"""Rows that wait for their labels in the optimiser's step, with guessed targets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.buffers import WaitingRoom
from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.selectors import Selector
from tamis.selectors.protocol import UsesUnlabelled

SWAPPED = 0.3
"""Share of the numbers of a guessed row that are those of another row."""


class Batch(NamedTuple):
    """What a step is taken on; targets are class numbers or shares of classes."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, rows: Samples, picks: Picks) -> Batch:
        """Return the picked rows, with their labels where the picks have no targets."""
        targets = rows.labels[picks.rows] if picks.targets is None else picks.targets
        return cls(rows.inputs[picks.rows], targets, picks.weights)


def picks_without_labels(k: int, held: int, waiting: int) -> int:
    """Return how many rows without labels to pick beside k with: k times their share of all rows.

    >>> picks_without_labels(32, held=3000, waiting=1000)
    8
    """
    return round(k * waiting / max(1, held + waiting))


def guess(
    selector: Selector,
    room: WaitingRoom | None,
    view: ModelView,
    k: int,
    held: int,
    generator: Generator,
) -> Batch | None:
    """Return waiting rows to train on beside k picks of the rows held; None where there are none.

    Only a selector that `UsesUnlabelled` picks any. A target is guessed from the row as it is, and
    trained on with a share of its numbers swapped, so that there is something to learn. Uses are
    not counted: a row that gets its label later has never been trained on it.
    """
    if not room or not isinstance(selector, UsesUnlabelled):
        return None
    count = picks_without_labels(k, held, len(room))
    if not count:
        return None
    rows = room.pool()
    picks = selector.select_unlabelled(rows, view, count, generator)
    if not len(picks):
        return None
    batch = Batch.of(rows, picks)
    return batch._replace(inputs=swap(batch.inputs, rows.inputs, generator))


def swap(inputs: Tensor, others: Tensor, generator: Generator) -> Tensor:
    """Return rows in which a share of the numbers are those of one other row, drawn for each.

    Each number stays one that its column has, whatever its scale (SCARF: Bahri, Jiang, Tay and
    Metzler, ICLR 2022).
    """
    drawn = torch.randint(len(others), (len(inputs),), generator=generator)
    swapped = torch.rand(inputs.shape, generator=generator) < SWAPPED
    drawn, swapped = (to_device(part, inputs.device) for part in (drawn, swapped))
    return torch.where(swapped, others[drawn], inputs)


def join(given: Batch, guessed: Batch, classes: int) -> Batch:
    """Return one batch of both, whose weighted mean loss is the mean over all real picks."""
    targets = given.targets
    if not targets.is_floating_point():
        targets = functional.one_hot(targets, classes).to(guessed.targets.dtype)
    weights = None
    if given.weights is not None or guessed.weights is not None:
        weights = torch.cat([counted(given), counted(guessed)])
        weights = weights * (len(weights) / (weights > 0).sum().clamp_min(1))
    return Batch(
        torch.cat([given.inputs, guessed.inputs]), torch.cat([targets, guessed.targets]), weights
    )


def counted(batch: Batch) -> Tensor:
    """Return weights that are 0 where a pick is none, and 1 on average over the others."""
    if batch.weights is None:
        return batch.inputs.new_ones(len(batch.inputs), dtype=batch.targets.dtype)
    return batch.weights * (batch.weights > 0).float().mean()
