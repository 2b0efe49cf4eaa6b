"""Classes that come up in mid-stream: how soon they are named and learned, and at what price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn

from tamis.buffers import Sliding
from tamis.data import Samples
from tamis.models import Scale, mlp, start
from tamis.noise import Alarm
from tamis.selectors import Plausible
from tamis.sources import Validator
from tamis.sources.scaling import measure_columns
from tamis.streams import Constant, DataSet, Replay, Symmetric, digits, fashion_mnist, mnist
from tamis.training import Trainer

LEARNED = 0.9
"""Recall from which on a class counts as learned."""

SCALED = 200
"""Rows that inputs are scaled by, as `tamis stream` does."""


DATA = {"mnist": mnist, "fashion-mnist": fashion_mnist, "digits": digits}
NEW = 2
"""Classes that come up: the last of the data."""
ROWS_PER_SLOT, CAPACITY, POOL_SIZE, K, RATE = 10, 10_000, 1024, 32, 0.1
"""Settings of `tamis stream` by default."""


@dataclass(frozen=True)
class Cell:
    """A stream whose last classes come up after `before` slots, and a seed.

    Models are tested every `every` slots.
    """

    data: str = "digits"
    clean: float = 0.7
    before: int = 300
    after: int = 900
    every: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Result(Cell):
    """What a cell came to, for the model that grows and for the one that knew all classes.

    `named` are the rows from the first of a new class to its name, `grown` and `knew` the slots
    until the new classes are learned, 0 if never; `new` and `old` the recall of the new classes
    and of the others at the end. `lost` and `fall` are those of `Measured`.
    """

    named: int = 0
    grown: int = 0
    knew: int = 0
    new_grown: float = 0.0
    new_knew: float = 0.0
    old_grown: float = 0.0
    old_knew: float = 0.0
    lost: float = 0.0
    fall: float = 0.0


@dataclass(frozen=True)
class Curve:
    """Test results after so many `slots` since the first with all classes.

    `new` is the recall of the new classes, `old` that of the others, `named` the rows from the
    first of a class to its name: that of the class named last.
    """

    slots: list[int]
    new: list[float]
    old: list[float]
    named: int = 0

    def learned(self) -> int | None:
        """Return the slots until the new classes are learned; None if they never are."""
        pairs = zip(self.slots, self.new, strict=True)
        return next((slot for slot, recall in pairs if recall >= LEARNED), None)


@dataclass(frozen=True)
class Measured:
    """One stream, seen by a model that grows and by one that knew all classes from the start.

    `fall` is by how much the recall of the old classes fell in the slot in which the model grew.
    """

    grown: Curve
    knew: Curve
    fall: float

    @property
    def lost(self) -> float:
        """How much lower the recall of the old classes is at the end than where all were known.

        It is the mean of the last ten tests.
        """
        return mean(self.knew.old[-10:]) - mean(self.grown.old[-10:])


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Measure a cell on its data."""
    found = measure(DATA[cell.data](folder), cell)
    grown, knew = found.grown, found.knew
    return Result(
        **asdict(cell), named=grown.named, grown=grown.learned() or 0, knew=knew.learned() or 0,
        new_grown=grown.new[-1], new_knew=knew.new[-1], old_grown=grown.old[-1],
        old_knew=knew.old[-1], lost=found.lost, fall=found.fall,
    )  # fmt: skip


def measure(data: DataSet, cell: Cell) -> Measured:
    """Train both models on one stream."""
    classes = len(data.classes)
    (grown, fall), (knew, _) = (train(data, cell, count) for count in (classes - NEW, classes))
    return Measured(grown, knew, fall)


def train(data: DataSet, cell: Cell, classes: int) -> tuple[Curve, float]:
    """Train a model that begins with so many classes; return its curve, and the fall as it grew."""
    trainer, alarm = make_trainer(data, cell, classes)
    old = len(data.classes) - NEW
    is_new = data.test_labels >= old
    curve, fall, first = Curve([], [], []), 0.0, dict[int, int]()
    for slot, samples in enumerate(play(data, cell), 1 - cell.before):
        before = recall(trainer, data, ~is_new) if slot == 1 else 0.0
        trainer.step(samples)
        for row, label in zip(samples.ids.tolist(), samples.labels.tolist(), strict=True):
            first.setdefault(label, row)
        for change in alarm.pop_class_changes():
            if change.kind == "new class":
                rows = int(samples.ids[-1]) + 1 - first[change.label]
                curve = replace(curve, named=max(curve.named, rows))
        if slot == 1:
            fall = before - recall(trainer, data, ~is_new)
        if slot > 0 and slot % cell.every == 0:
            curve.slots.append(slot)
            curve.new.append(recall(trainer, data, is_new))
            curve.old.append(recall(trainer, data, ~is_new))
    return curve, fall


def make_trainer(data: DataSet, cell: Cell, classes: int) -> tuple[Trainer, Alarm]:
    """Build a trainer of so many classes that lets all of the data in, and its alarm."""
    scale = Scale(*measure_columns(data.inputs[:SCALED]))
    model = nn.Sequential(scale, start(mlp, data.input_shape, classes, cell.seed))
    alarm = Alarm(classes)
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), RATE),
        Plausible(),
        Sliding(CAPACITY),
        k=K,
        window="average",
        pool_size=POOL_SIZE,
        validator=Validator(classes, max_classes=len(data.classes)),
        tracker=alarm,
        seed=cell.seed,
    )
    return trainer, alarm


def play(data: DataSet, cell: Cell) -> Iterator[Samples]:
    """Play rows of the old classes, then of all; labels go wrong among the classes of the time."""
    old = len(data.classes) - NEW
    among = data.labels < old
    arrived = 0
    for rows, classes, slots, seed in (
        (among.nonzero()[:, 0], old, cell.before, 2 * cell.seed),
        (torch.arange(len(among)), len(data.classes), cell.after, 2 * cell.seed + 1),
    ):
        stream = Replay(
            data.inputs[rows], data.labels[rows], Symmetric(classes),
            Constant(cell.clean), slots=slots, rows_per_slot=ROWS_PER_SLOT,
            seed=seed,
        )  # fmt: skip
        for samples in stream:
            yield replace(samples, ids=samples.ids + arrived)
        arrived += slots * ROWS_PER_SLOT


def recall(trainer: Trainer, data: DataSet, rows: Tensor) -> float:
    """Return the share of some test rows whose class the averaged model predicts."""
    predicted = trainer.averaged.logits(data.test_inputs[rows]).argmax(dim=1)
    return (predicted == data.test_labels[rows]).double().mean().item()
