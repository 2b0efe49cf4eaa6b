"""The clean ratio over time: estimates, the truth where it is known, and alarms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tamis.data import Samples, Slot
from tamis.noise import Alarm, Tracker
from tamis.runs.json_lines import JsonObject, Tail, add_line, synced_size, truncate
from tamis.runs.layout import RunFiles

T = TypeVar("T", "EstimatePoint", "AlarmRecord")
WRITTEN = (RunFiles.estimates, RunFiles.alarms)
MALFORMED = (KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class EstimatePoint:
    """The clean ratio at a slot, with its band, and the true one where it is known.

    `by_class` has the clean ratio of every given label, `confusion` the share of each given label
    among the rows of a class. Both may be absent; with more than 128 classes there is no confusion.
    """

    slot: int
    value: float
    low: float
    high: float
    true: float | None = None
    by_class: tuple[float | None, ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None

    def to_json(self) -> JsonObject:
        """Return the point as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> EstimatePoint | None:
        """Read a JSON object; None where it is not a point."""
        by_class, confusion = line.get("by_class"), line.get("confusion")
        try:
            return cls(
                int(line["slot"]),
                share(line["value"]),
                share(line["low"]),
                share(line["high"]),
                share_or_none(line.get("true")),
                None if by_class is None else tuple(share_or_none(part) for part in by_class),
                None
                if confusion is None
                else tuple(tuple(share(part) for part in row) for row in confusion),
            )
        except MALFORMED:
            return None


@dataclass(frozen=True)
class AlarmRecord:
    """An alarm: its slot, what has changed, and the clean ratio before and after."""

    slot: int
    kind: str
    before: float
    after: float

    def to_json(self) -> JsonObject:
        """Return the alarm as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> AlarmRecord | None:
        """Read a JSON object; None where it is not an alarm."""
        try:
            before, after = share(line["before"]), share(line["after"])
            return cls(int(line["slot"]), str(line["kind"]), before, after)
        except MALFORMED:
            return None


class EstimateLog:
    """Writes the estimates of a tracker to a run's folder, and its alarms as they come.

    Call `update` once a slot. An estimate is written every `every` slots, with the confusion of
    labels every `confusion_every` slots, since that is larger, and only up to 128 classes. Where
    arriving samples carry the ground truth, the true clean ratio since the last line is written
    beside the estimate.

        estimates = EstimateLog(folder, trainer.tracker)
        for samples in stream:
            estimates.update(trainer.step(samples), samples)
    """

    def __init__(
        self, folder: Path, tracker: Tracker, *, every: int = 50, confusion_every: int = 500
    ) -> None:
        if every < 1 or confusion_every < 1:
            raise ValueError(f"Lines come every 1 slot or more, got {every}, {confusion_every}.")
        self.folder = folder
        self.tracker = tracker
        self.every = every
        self.confusion_every = confusion_every
        self._arrived = self._clean = 0

    def update(self, slot: Slot, arrived: Samples | None = None) -> None:
        """Write an estimate where one is due, and an alarm where one was raised."""
        if arrived is not None and arrived.clean is not None:
            self._arrived += len(arrived)
            self._clean += int(arrived.clean.sum())
        if isinstance(self.tracker, Alarm) and (change := self.tracker.pop_change()):
            alarm = AlarmRecord(slot.number, change.kind, change.before, change.after)
            add_line(self.folder / RunFiles.alarms, alarm.to_json())
        done = slot.number + 1
        if done % self.every and done % self.confusion_every:
            return
        point = point_of(self.tracker, slot.number, with_confusion=done % self.confusion_every == 0)
        true = self._clean / self._arrived if self._arrived else None
        self._arrived = self._clean = 0
        add_line(self.folder / RunFiles.estimates, replace(point, true=true).to_json())

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, and the sizes of the files."""
        ends = {name: synced_size(self.folder / name) for name in WRITTEN}
        return {"arrived": self._arrived, "clean": self._clean, "ends": ends}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts, and remove the lines that were written since then."""
        self._arrived, self._clean = int(state["arrived"]), int(state["clean"])
        for name in WRITTEN:
            truncate(self.folder / name, int(state["ends"][name]))


def point_of(tracker: Tracker, slot: int, with_confusion: bool = False) -> EstimatePoint:
    """Return the estimates of a tracker, rounded to four digits."""
    by_class = tracker.by_class().tolist()
    confusion = tracker.confusion() if with_confusion else None
    value, low, high = (round(number, 4) for number in tracker.estimate())
    return EstimatePoint(
        slot,
        value,
        low,
        high,
        by_class=tuple(round(share, 4) if math.isfinite(share) else None for share in by_class),
        confusion=(
            tuple(tuple(round(share, 4) for share in row) for row in confusion.tolist())
            if confusion is not None and not confusion.is_sparse and confusion.isfinite().all()
            else None
        ),
    )


class EstimateHistory:
    """The points and alarms of a run, as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self.points: list[EstimatePoint] = []
        self.alarms: list[AlarmRecord] = []
        self._point_tail = Tail(folder / RunFiles.estimates)
        self._alarm_tail = Tail(folder / RunFiles.alarms)
        self.refresh()

    def refresh(self) -> bool:
        """Read what the files have gained, and return whether that was anything."""
        points, alarms = self._point_tail.read(), self._alarm_tail.read()
        if self._point_tail.reset:
            self.points.clear()
        if self._alarm_tail.reset:
            self.alarms.clear()
        append_by_slot(self.points, map(EstimatePoint.from_json, points))
        append_by_slot(self.alarms, map(AlarmRecord.from_json, alarms))
        return bool(points or alarms) or self._point_tail.reset or self._alarm_tail.reset


def append_by_slot(known: list[T], new: Iterable[T | None]) -> None:
    """Append new items; an earlier slot, as after a resume, replaces all from it on."""
    for item in new:
        if item is None:
            continue
        while known and known[-1].slot >= item.slot:
            known.pop()
        known.append(item)


def share(value: Any) -> float:
    """Read a share, from 0 to 1."""
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError
    return number


def share_or_none(value: Any) -> float | None:
    """Read a share that may be absent."""
    return None if value is None else share(value)
