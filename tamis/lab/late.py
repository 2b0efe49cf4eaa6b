"""Labels that come late, twice, withdrawn or never, beside the same labels on time.

A cell is one training run of the default rule over a stream that is seen once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tamis.buffers import WaitingRoom
from tamis.lab.scene import PLACES, Scene
from tamis.noise import Alarm
from tamis.selectors import Plausible
from tamis.streams import LateLabels

ARMS = ("on time", "late")
"""Rows come with their labels, or wait for them."""
REPEATED, WITHDRAWN = 0.1, 0.05
"""Shares of labels that come twice, and that are withdrawn."""
ROOM = 1.3
"""Rows that may wait, as a multiple of those that come within the mean delay."""
NEAR = 0.003
"""How far accuracy may be from that of labels on time."""


@dataclass(frozen=True)
class Cell:
    """What a run depends on."""

    data: str = "mnist-once"
    noise: str = "symmetric"
    clean: float = 0.7
    slots: int = 10_000
    late: int = 500
    arm: str = "late"
    seed: int = 0


@dataclass(frozen=True)
class Result(Cell):
    """How a run ended: accuracy of raw and averaged weights, and what waited."""

    accuracy: float = 0.0
    accuracy_ema: float = 0.0
    estimated: float = 0.0
    labelled: float = 0.0
    most_waiting: int = 0
    limit: int = 0
    unlabelled: int = 0
    unmatched: int = 0


def cells(settings: Cell, cleans: Sequence[float], lates: Sequence[int], seeds: int) -> list[Cell]:
    """Return the cells of all settings, with both arms of each."""
    return [
        replace(settings, clean=clean, late=late, arm=arm, seed=seed)
        for clean in cleans
        for late in lates
        for seed in range(seeds)
        for arm in ARMS
    ]


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Train on the events of a cell, and test at the end."""
    place = replace(PLACES[cell.data], once=True)
    scene = Scene(place, place.load(folder), cell.noise, cell.clean, cell.slots, cell.seed)
    events = LateLabels(
        filter(None, scene.stream()), cell.late, repeated=REPEATED, withdrawn=WITHDRAWN,
        on_time=cell.arm == "on time", seed=cell.seed,
    )  # fmt: skip
    limit = round(ROOM * cell.late * -(-len(scene.held) // cell.slots))
    room = WaitingRoom(limit)
    trainer = scene.trainer(
        Plausible(), warm_up=0, predict_first=True, waiting=room, tracker=Alarm(scene.classes)
    )
    most = 0
    for slot in trainer.run(events):
        most = max(most, slot.waiting)
    data = scene.data
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels)
    tracker = trainer.tracker
    return Result(
        **asdict(cell),
        accuracy=accuracy.raw,
        accuracy_ema=accuracy.ema or 0.0,
        estimated=tracker.estimate().value if tracker else 0.0,
        labelled=room.labelled or 0.0,
        most_waiting=most,
        limit=limit,
        unlabelled=room.unlabelled,
        unmatched=room.unmatched,
    )
