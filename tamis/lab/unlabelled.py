"""Streams in which labels are missing: rows without them left out, or used with guessed targets.

A cell is one training run of the default rule over a stream that is seen once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Generator

from tamis.buffers import WaitingRoom
from tamis.data import UNLABELLED, Picks, Samples
from tamis.lab.made_tables import make_table
from tamis.lab.scene import PLACES, Place, Scene
from tamis.lab.table_models import columns
from tamis.lab.tables import Split, encode, rows_of
from tamis.model_view import ModelView
from tamis.selectors import Plausible
from tamis.streams import Constant, DataSet, Replay, digits

ARMS = ("left out", "used")
"""What happens to rows without labels."""
ALL = "all labels"
"""The arm that has every label, that the others are compared with."""
ROOM = 10_000
"""Rows that may wait."""


def table(folder: Path | None = None) -> DataSet:
    """Return a made table of 11 columns and 4 classes: numbers scaled, categories one-hot."""
    made, order = make_table(20_000, 4, seed=4), torch.arange(20_000)
    labels, train, test = torch.from_numpy(made.labels).long(), order[:15_000], order[15_000:]
    right = torch.ones_like(train, dtype=torch.bool)
    encoded = encode(Split(rows_of(made, train), labels[train], right, rows_of(made, test), 4))
    numbers = columns(encoded, scaled=True).fit(encoded.rows)
    inputs, test_inputs = (
        torch.from_numpy(numbers.transform(rows)).float() for rows in (encoded.rows, encoded.test)
    )
    return DataSet(inputs, labels[train], test_inputs, labels[test], tuple("0123"))


PLACES_ONCE: dict[str, Callable[[], Place]] = {
    "mnist-once": lambda: PLACES["mnist-once"],
    "digits": lambda: Place(digits, slots=450, held=None, once=True, k=10),
    "table": lambda: Place(table, slots=2500, held=None, once=True, k=10),
}


@dataclass(frozen=True)
class Cell:
    """What a run depends on."""

    data: str = "mnist-once"
    noise: str = "symmetric"
    clean: float = 0.7
    labelled: float = 0.5
    arm: str = "used"
    seed: int = 0


@dataclass(frozen=True)
class Result(Cell):
    """How a run ended.

    `guessed` counts the picks of rows without labels, `right` is the share of them whose likeliest
    target is the true class.
    """

    accuracy: float = 0.0
    accuracy_ema: float = 0.0
    estimated: float = 0.0
    guessed: int = 0
    right: float = 0.0


@dataclass(kw_only=True)
class Counting(Plausible):
    """The rule as it is, and how often its guesses are right: the true class is in `groups`."""

    guessed: int = field(default=0, init=False)
    right: int = field(default=0, init=False)

    def select_unlabelled(
        self, rows: Samples, view: ModelView, k: int, generator: Generator
    ) -> Picks:
        """Pick rows, and count the guesses."""
        picks = super().select_unlabelled(rows, view, k, generator)
        if picks.targets is not None and rows.groups is not None:
            self.guessed += len(picks)
            self.right += int((picks.targets.argmax(dim=1) == rows.groups[picks.rows]).sum())
        return picks


def cells(
    settings: Cell, streams: Sequence[tuple[str, float]], labelled: Sequence[float], seeds: int
) -> list[Cell]:
    """Return the cells of all streams, each a noise and its clean ratio; seeds outermost."""
    return [
        replace(settings, noise=noise, clean=clean, labelled=share, arm=arm, seed=seed)
        for seed in range(seeds)
        for noise, clean in streams
        for share, arm in [(1.0, ALL), *((share, arm) for share in labelled for arm in ARMS)]
    ]


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Train on the stream of a cell, and test at the end."""
    torch.set_num_threads(1)
    place = PLACES_ONCE[cell.data]()
    scene = Scene(place, place.load(folder), cell.noise, cell.clean, place.slots, cell.seed)
    rule = Counting(use_unlabelled=cell.arm == "used")
    trainer = scene.trainer(rule, warm_up=0, waiting=WaitingRoom(ROOM))
    for _ in trainer.run(stream_of(scene, cell.labelled)):
        pass
    accuracy = trainer.accuracy(scene.data.test_inputs, scene.data.test_labels)
    return Result(
        **asdict(cell),
        accuracy=accuracy.raw,
        accuracy_ema=accuracy.ema or 0.0,
        estimated=rule.clean_ratio() or 0.0,
        guessed=rule.guessed,
        right=rule.right / max(1, rule.guessed),
    )


def stream_of(scene: Scene, labelled: float) -> Iterator[Samples]:
    """Yield the rows of a scene, a share of them with their labels; `groups` are true classes."""
    generator = Generator().manual_seed(scene.seed)
    truth = scene.data.labels[scene.held]
    for samples in Replay(
        scene.data.inputs[scene.held], truth, scene.label_noise,
        Constant(scene.clean_ratio), slots=scene.slots,
        rows_per_slot=-(-len(truth) // scene.slots), seed=scene.seed, groups=truth,
    ):  # fmt: skip
        hidden = torch.rand(len(samples), generator=generator) >= labelled
        yield replace(samples, labels=samples.labels.masked_fill(hidden, UNLABELLED))
