"""The records that cross every border of the package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Labelled rows, one entry per row in every field.

    `clean` marks the labels that are right. Only a simulation knows it, and only the oracle and the
    monitor may read it. `groups` numbers the groups that picks should be fair to, if any.
    `features` are what the last layer of a model was fed when it last saw each row, if kept.
    `annotators` number those who gave the labels, -1 where that is not known, if any are.

    >>> rows = Samples.of(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> rows[torch.tensor([2, 0])].ids.tolist()
    [2, 0]
    """

    inputs: Tensor
    labels: Tensor
    ids: Tensor
    uses: Tensor
    clean: Tensor | None = None
    groups: Tensor | None = None
    features: Tensor | None = None
    annotators: Tensor | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise ValueError(f"Samples need one entry per row in every field, got {counts}.")

    @classmethod
    def of(
        cls,
        inputs: Tensor,
        labels: Tensor,
        first_id: int = 0,
        *,
        clean: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Samples:
        """Return rows that have not been used yet, numbered from `first_id`."""
        ids = torch.arange(first_id, first_id + len(labels), device=labels.device)
        return cls(inputs, labels, ids, torch.zeros_like(ids), clean, groups)

    def columns(self) -> dict[str, Tensor]:
        """Return the fields that are present, by name."""
        return {name: column for name in COLUMNS if (column := getattr(self, name)) is not None}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> Samples:
        return Samples(**{name: column[rows] for name, column in self.columns().items()})

    def to(self, device: torch.device) -> Samples:
        """Return the same rows on another device."""
        return Samples(
            **{name: to_device(column, device) for name, column in self.columns().items()}
        )


COLUMNS = tuple(field.name for field in fields(Samples))


def concat(parts: Sequence[Samples]) -> Samples:
    """Return the rows of all parts, in their order. All parts have the same columns."""
    columns = [part.columns() for part in parts]
    return Samples(**{name: torch.cat([part[name] for part in columns]) for name in columns[0]})


def match_ids(held: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places in `held` of all ids that are among `ids`, and the place of each in `ids`.

    Of an id that is in `ids` twice, the last place counts.

    >>> match_ids(torch.tensor([7, 8, 9, 8]), torch.tensor([9, 5, 8, 9]))
    (tensor([1, 2, 3]), tensor([2, 3, 2]))
    """
    ids = ids.to(held.device)
    order = ids.argsort(stable=True)
    last = torch.searchsorted(ids[order], held, right=True) - 1
    places = torch.isin(held, ids).nonzero()[:, 0]
    return places, order[last[places]]


def label_changes(held: Samples, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows whose labels change if these ids get these labels, and their new labels."""
    if len(ids) != len(labels):
        raise ValueError(f"Every id needs a label, got {len(ids)} ids, {len(labels)} labels.")
    rows, given = match_ids(held.ids, ids)
    labels = labels.to(held.labels.device)[given]
    changed = held.labels[rows] != labels
    return rows[changed], labels[changed]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device, without waiting for it."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


NO_SAMPLES = Samples.of(torch.empty(0, 1), torch.empty(0, dtype=torch.long))


UNLABELLED = -1
"""Label of a row that has none, or none yet."""
REVIEWER = -2
"""Annotator of an event whose label somebody has decided on: it is taken as right."""


class Event(NamedTuple):
    """Something that came for a row: the row itself, a label for it, both, or a withdrawal.

    `id` is that of the row, as a number and as text. `row` is its place among the samples that
    came with it, None where only a label came. `label` is None for a row without a label; where
    no row came either, it withdraws the label, that of `annotator` alone if one is named. `time` is
    when it happened, in seconds since 1970.
    """

    id: int
    row: int | None
    label: int | None
    annotator: int | None = None
    time: float | None = None
    name: str | None = None


@dataclass(frozen=True)
class Events:
    """What came in one slot, in order: rows with or without labels, and labels apart from rows.

    `samples` are the rows that came, each with the label it came with, or `UNLABELLED`. Each of
    them is named by the `row` of one event. An id may occur in several events.
    """

    samples: Samples
    events: tuple[Event, ...]

    @classmethod
    def of(cls, samples: Samples, names: Sequence[str] | None = None) -> Events:
        """Return rows as events, each with the label that it came with, and its id as text."""
        columns = (samples.ids, samples.labels, samples.annotators)
        unknown = torch.full_like(samples.ids, -1)
        given = zip(*((unknown if x is None else x).tolist() for x in columns), strict=True)
        events = tuple(
            Event(
                row_id,
                row,
                None if label == UNLABELLED else label,
                None if who == -1 else who,
                name=None if names is None else names[row],
            )
            for row, (row_id, label, who) in enumerate(given)
        )
        return cls(samples, events)

    def __len__(self) -> int:
        return len(self.events)


@dataclass(frozen=True)
class Search:
    """What a search through the pool did, for the monitor and the regret.

    `visits` counts the times that each of `rows` of the pool was stepped on, and no other row was.
    Numbers stay on the device until somebody reads them: `stayed` is the share of moves that
    ended where they began, `regret` the mean over chains of the local Lagrangian regret, `price`
    the highest price (the paper's mu) that any chain came to, `taxes` the multiplier of each group
    where shares are constrained.
    """

    rows: Tensor
    visits: Tensor
    stayed: Tensor
    regret: Tensor
    price: Tensor
    taxes: Tensor | None = None


@dataclass(frozen=True)
class Picks:
    """Rows of a pool to train on, with optional weights and soft targets, one entry per pick.

    A pick of weight 0 is none: a GPU marks picks so where their number is not known without waiting
    for it.
    """

    rows: Tensor
    weights: Tensor | None = None
    targets: Tensor | None = None
    search: Search | None = None

    @classmethod
    def only(
        cls,
        rows: Tensor,
        real: Tensor,
        search: Search | None = None,
        targets: Tensor | None = None,
    ) -> Picks:
        """Return those of the rows that are real picks."""
        if rows.device.type == "cpu":
            targets = None if targets is None else targets[real]
            return cls(rows[real], targets=targets, search=search)
        weights = real * (len(rows) / real.sum().clamp_min(1))
        return cls(rows, weights, targets, search)

    def real(self) -> Picks:
        """Return the picks of weight above 0; the mean of weighted losses stays the same."""
        if self.weights is None:
            return self
        real = self.weights > 0
        targets = None if self.targets is None else self.targets[real]
        weights = self.weights[real] * real.float().mean()
        return Picks(self.rows[real], weights, targets, self.search)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Slot:
    """What happened in one time slot, the paper's t.

    `seen`, `held` and `skipped` count rows: taken in since the start, in the buffer now, refused
    since the start. `picked` holds an id for every pick, -1 for a pick of weight 0. `figures` are
    numbers that stay on the device until one of them is read as an attribute of the slot; then
    all are copied at once. Shares of what is held (`coverage`, `recall`, `class_held`) are counted
    again in every slot, or less often in a large buffer: once for every 8,192 rows in it.
    `class_arrived` and `class_predicted` count the rows that `agreement` is over, by the label that
    arrived and by the model's prediction of it; None where that is not known. `waiting` counts the
    rows that wait for their labels, `labelled` is the share of rows that have had theirs.
    """

    number: int
    warm_up: bool
    seen: int
    held: int
    skipped: int
    picked: Tensor
    class_picks: Tensor
    class_held: Tensor
    figures: Mapping[str, Tensor | None]
    select_seconds: float
    seconds: float
    class_arrived: Tensor | None = None
    class_predicted: Tensor | None = None
    waiting: int = 0
    labelled: float | None = None

    @property
    def ids(self) -> Tensor:
        """Return the ids of the picks."""
        return self.picked[self.picked >= 0].cpu()

    @property
    def loss(self) -> float | None:
        """Mean training loss of the picks."""
        return self._read["loss"]

    @property
    def agreement(self) -> float | None:
        """Share of arriving labels that the model predicted before it learned from them."""
        return self._read["agreement"]

    @property
    def purity(self) -> float | None:
        """Clean share of the picks; None where it is not known which labels are right."""
        return self._read["purity"]

    @property
    def recall(self) -> float | None:
        """Share of the clean rows held that were ever picked; None where unknown."""
        return self._read["recall"]

    @property
    def coverage(self) -> float | None:
        """Share of the rows held that were ever picked."""
        return self._read["coverage"]

    @property
    def stayed(self) -> float | None:
        """Share of moves of a search that ended where they began."""
        return self._read["stayed"]

    @property
    def price(self) -> float | None:
        """Highest price that a search came to."""
        return self._read["price"]

    def read(self) -> dict[str, float | None]:
        """Read all figures; None where there is no number."""
        return dict(self._read)

    @cached_property
    def _read(self) -> dict[str, float | None]:
        known = {name: value for name, value in self.figures.items() if value is not None}
        numbers = torch.stack([value.float() for value in known.values()]).tolist() if known else []
        read = dict.fromkeys(self.figures) | dict(zip(known, numbers, strict=True))
        return {
            name: None if value is None or not math.isfinite(value) else value
            for name, value in read.items()
        }  # a share of nothing is not a number, and neither is the loss of a step not taken
