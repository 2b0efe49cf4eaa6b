"""Corrections of labels that cross between ranks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import label_changes
from tamis.distributed.group import Ranks
from tamis.distributed.shard import Shard
from tamis.model_view import ModelView
from tamis.noise import Tracker


def changed_rows(shard: Shard, view: ModelView, wanted: Tensor) -> Tensor:
    """Return the rows of a shard that corrections change: (id, label) in each row of `wanted`.

    The columns are id, old label, new label, and confidence (the bits of a double) and class of
    the model's prediction.
    """
    if not len(shard.buffer) or not len(wanted):
        return wanted.new_empty(0, 5)
    held = shard.buffer.pool()
    rows, after = label_changes(held, wanted[:, 0], wanted[:, 1])
    if not len(rows):
        return wanted.new_empty(0, 5)
    confidence, predicted = view.probabilities(held.inputs[rows]).max(dim=1)
    bits = confidence.double().view(torch.long)
    return torch.stack([held.ids[rows], held.labels[rows], after, bits, predicted], dim=1)


def relabel_tracker(tracker: Tracker, changed: Tensor, classes: int, newest: int) -> None:
    """Count rows under their new labels; `changed` has the columns of `changed_rows`."""
    ids, before, after, bits, predicted = changed.unbind(dim=1)
    confidence = bits.contiguous().view(torch.double)
    probabilities = functional.one_hot(predicted, classes) * confidence[:, None]
    ages = (newest - ids).clamp(0, newest)
    tracker.relabel(probabilities, before, after, ages=ages)


def gather_rows(ranks: Ranks, mine: Tensor) -> Tensor:
    """Return the rows of all ranks, in the order of the ranks; each may have another number."""
    if ranks.size == 1:
        return mine
    counts = ranks.gather("corrections", torch.tensor(len(mine), device=mine.device)).tolist()
    if not any(counts):
        return mine
    padded = mine.new_zeros(max(counts), *mine.shape[1:])
    padded[: len(mine)] = mine
    everyone = ranks.gather("corrections", padded)
    return torch.cat([part[:count] for part, count in zip(everyone, counts, strict=True)])
