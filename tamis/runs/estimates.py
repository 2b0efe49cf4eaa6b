"""How right labels are thought to be, over time: estimates, truth where it is known, alarms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from tamis.data import Samples, Slot
from tamis.noise import Alarm, Tracker
from tamis.runs.json_lines import Line, Tail, add_line, cut_back, end_of
from tamis.runs.layout import RunFiles

T = TypeVar("T", "EstimatePoint", "AlarmRecord")
WRITTEN = (RunFiles.estimates, RunFiles.alarms)


@dataclass(frozen=True)
class EstimatePoint:
    """The clean ratio at a slot, with its band, and the true one where somebody knows it.

    `by_class` has a share for every given label, `confusion` the share of each given label among
    rows of a class. Both may be absent.
    """

    slot: int
    value: float
    low: float
    high: float
    true: float | None = None
    by_class: tuple[float | None, ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None


class AlarmRecord(NamedTuple):
    """An alarm: the slot it came in, what has changed, the clean ratio before and after."""

    slot: int
    kind: str
    before: float
    after: float


class EstimateLog:
    """Writes down what a tracker knows, every `every` slots, and its alarms as they come.

    Call `update` once a slot. The confusion of labels is larger, so that it is written every
    `confusion_every` slots only. Where arriving samples say which of them are clean, the true
    ratio of those that came since the last line stands beside the estimate.

        tracking = EstimateLog(folder, trainer.tracker)
        for samples in stream:
            tracking.update(trainer.step(samples), samples)
    """

    def __init__(
        self, folder: Path, tracker: Tracker, every: int = 50, confusion_every: int = 500
    ) -> None:
        if every < 1 or confusion_every < 1:
            raise ValueError(f"Lines come every 1 slot or more, got {every}, {confusion_every}.")
        self.folder = folder
        self.tracker = tracker
        self.every = every
        self.confusion_every = confusion_every
        self._arrived = self._clean = 0

    def update(self, slot: Slot, arrived: Samples | None = None) -> None:
        """Write a line where one is due, and an alarm where there is one."""
        if arrived is not None and arrived.clean is not None:
            self._arrived += len(arrived)
            self._clean += int(arrived.clean.sum())
        if isinstance(self.tracker, Alarm) and (change := self.tracker.pop_change()):
            record = AlarmRecord(slot.number, change.kind, change.before, change.after)
            add_line(self.folder / RunFiles.alarms, record._asdict())
        done = slot.number + 1
        if done % self.every and done % self.confusion_every:
            return
        point = point_of(self.tracker, slot.number, with_confusion=done % self.confusion_every == 0)
        true = self._clean / self._arrived if self._arrived else None
        self._arrived = self._clean = 0
        add_line(self.folder / RunFiles.estimates, asdict(replace(point, true=true)))

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, and where the files end."""
        ends = {name: end_of(self.folder / name) for name in WRITTEN}
        return {"arrived": self._arrived, "clean": self._clean, "ends": ends}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts, and remove the lines that were written since then."""
        self._arrived, self._clean = int(state["arrived"]), int(state["clean"])
        for name in WRITTEN:
            cut_back(self.folder / name, int(state["ends"][name]))


def point_of(tracker: Tracker, slot: int, with_confusion: bool = False) -> EstimatePoint:
    """Ask a tracker for what it knows now."""
    by_class = tracker.by_class().tolist()
    confusion = tracker.confusion() if with_confusion else torch.full((1, 1), torch.nan)
    value, low, high = (round(number, 4) for number in tracker.estimate())
    return EstimatePoint(
        slot,
        value,
        low,
        high,
        by_class=tuple(round(share, 4) if math.isfinite(share) else None for share in by_class),
        confusion=(
            tuple(tuple(round(share, 4) for share in row) for row in confusion.tolist())
            if confusion.isfinite().all()
            else None
        ),
    )


class EstimateHistory:
    """Reads points, or alarms, as far as they were written."""

    def __init__(self, folder: Path) -> None:
        self.points: list[EstimatePoint] = []
        self.alarms: list[AlarmRecord] = []
        self._tracked, self._noted = (
            Tail(folder / RunFiles.estimates),
            Tail(folder / RunFiles.alarms),
        )
        self.refresh()

    def refresh(self) -> bool:
        """Read on, and say whether anything was new."""
        points, alarms = self._tracked.read(), self._noted.read()
        if self._tracked.anew:
            self.points.clear()
        if self._noted.anew:
            self.alarms.clear()
        add_in_order(self.points, map(read_point, points))
        add_in_order(self.alarms, map(read_noted, alarms))
        return bool(points or alarms) or self._tracked.anew or self._noted.anew


def add_in_order(known: list[T], new: Iterable[T | None]) -> None:
    """Add what is new; a slot told again, as after a resume, takes back all from it on."""
    for item in new:
        if item is None:
            continue
        while known and known[-1].slot >= item.slot:
            known.pop()
        known.append(item)


def read_point(line: Line) -> EstimatePoint | None:
    """Read a point; None where the line is none."""

    def make() -> EstimatePoint:
        by_class, confusion, true = (line.get(key) for key in ("by_class", "confusion", "true"))
        return EstimatePoint(
            int(line["slot"]),
            share(line["value"]),
            share(line["low"]),
            share(line["high"]),
            true=None if true is None else share(true),
            by_class=None if by_class is None else tuple(maybe(part) for part in by_class),
            confusion=None
            if confusion is None
            else tuple(tuple(share(part) for part in row) for row in confusion),
        )

    return attempt(make)


def read_noted(line: Line) -> AlarmRecord | None:
    """Read an alarm; None where the line is none."""
    return attempt(
        lambda: AlarmRecord(
            int(line["slot"]), str(line["kind"]), share(line["before"]), share(line["after"])
        )
    )


Made = TypeVar("Made")


def attempt(make: Callable[[], Made]) -> Made | None:
    """Make something of a line that anybody may have written."""
    try:
        return make()
    except (KeyError, TypeError, ValueError):
        return None


def share(value: Any) -> float:
    """Read a share, from 0 to 1."""
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError
    return number


def maybe(value: Any) -> float | None:
    """Read a share that may be missing."""
    return None if value is None else share(value)
