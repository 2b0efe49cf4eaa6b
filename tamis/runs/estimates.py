"""The clean ratio over time: estimates, the truth where it is known, and alarms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tamis.data import Samples, Slot
from tamis.noise import Alarm, Tracker
from tamis.noise.opinions import Estimates, SeesMemorising
from tamis.runs.json_lines import JsonObject, Tail, add_line, synced_size, truncate
from tamis.runs.layout import RunFiles

T = TypeVar("T", bound="OfSlot")
WRITTEN = (RunFiles.estimates, RunFiles.alarms)
LEARNED_BY_HEART = "labels learned by heart"
CHANGED = {"noise": "The share of wrong labels", "concept": "The data, not only the labels,"}
"""What an alarm about the stream is about, by its kind."""
MALFORMED = (KeyError, TypeError, ValueError)


class OfSlot(Protocol):
    """Anything that was written at a slot."""

    @property
    def slot(self) -> int:
        """The slot."""
        ...


@dataclass(frozen=True)
class EstimatePoint:
    """The clean ratio at a slot, with its band, and the true one where it is known.

    `by_class` has the clean ratio of every given label, `confusion` the share of each given label
    among the rows of a class. Both may be absent; with more than 128 classes there is no confusion.
    `held` is what the selector takes the clean ratio of the rows held to be, with its band, where
    it has an opinion.
    """

    slot: int
    value: float
    low: float
    high: float
    true: float | None = None
    by_class: tuple[float | None, ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None
    held: tuple[float, float, float] | None = None

    def to_json(self) -> JsonObject:
        """Return the point as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> EstimatePoint | None:
        """Read a JSON object; None where it is not a point."""
        by_class, confusion, held = (line.get(name) for name in ("by_class", "confusion", "held"))
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
                None if held is None else (share(held[0]), share(held[1]), share(held[2])),
            )
        except MALFORMED:
            return None


@dataclass(frozen=True)
class AlarmRecord:
    """An alarm: its slot, what has changed, and the clean ratio before and after.

    That of labels learned by heart has the clean ratio by rows when they were seen first, and now.
    One about a class has its name as `subject`, and no ratios. One about an annotator who has gone
    bad names him, with the shares of his labels that agreed with those of others.
    """

    slot: int
    kind: str
    before: float | None = None
    after: float | None = None
    subject: str = ""

    @property
    def text(self) -> str:
        """What has changed, as a sentence."""
        if self.before is None or self.after is None:
            return f"{self.kind.capitalize()}: {self.subject}."
        if self.subject:
            shares = f"agreement with others {self.before:.2f} before, {self.after:.2f} after"
            return f"{self.kind.capitalize()} {self.subject} has gone bad: {shares}."
        if self.kind == LEARNED_BY_HEART:
            shares = (
                f"clean ratio {self.before:.2f} when rows were seen first, {self.after:.2f} now"
            )
            return f"{self.kind.capitalize()}: {shares}. Trust the first."
        what = CHANGED.get(self.kind, f"The stream ({self.kind})")
        return f"{what} changed: clean ratio {self.before:.2f} before, {self.after:.2f} after."

    def to_json(self) -> JsonObject:
        """Return the alarm as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> AlarmRecord | None:
        """Read a JSON object; None where it is not an alarm."""
        try:
            before, after = (share_or_none(line.get(name)) for name in ("before", "after"))
            subject = str(line.get("subject") or "")
            if not subject and (before is None or after is None):
                return None
            return cls(int(line["slot"]), str(line["kind"]), before, after, subject)
        except MALFORMED:
            return None


class EstimateLog:
    """Writes the estimates of a tracker to a run's folder, and its alarms as they come.

    Call `update` once a slot. An estimate is written every `every` slots, with the confusion of
    labels every `confusion_every` slots, since that is larger, and only up to 128 classes. Where
    arriving samples carry the ground truth, the true clean ratio since the last line is written
    beside the estimate. Alarms about classes call them by the names in `classes`, which may be set
    again when classes come up, or by their numbers. A `selector` with an opinion of the clean ratio
    has it written beside that of the tracker, and an alarm where it notices that labels were
    learned by heart.

        estimates = EstimateLog(folder, trainer.tracker)
        for samples in stream:
            estimates.update(trainer.step(samples), samples)
    """

    def __init__(
        self,
        folder: Path,
        tracker: Tracker,
        selector: object = None,
        *,
        every: int = 50,
        confusion_every: int = 500,
        classes: Sequence[str] = (),
    ) -> None:
        if every < 1 or confusion_every < 1:
            raise ValueError(f"Lines come every 1 slot or more, got {every}, {confusion_every}.")
        self.folder = folder
        self.tracker = tracker
        self.classes = classes
        self.selector = selector
        self.every = every
        self.confusion_every = confusion_every
        self._arrived = self._clean = 0
        self._learned = False

    def update(self, slot: Slot, arrived: Samples | None = None) -> None:
        """Write an estimate where one is due, and an alarm where one was raised."""
        if arrived is not None and arrived.clean is not None:
            self._arrived += len(arrived)
            self._clean += int(arrived.clean.sum())
        for alarm in self._alarms(slot.number):
            add_line(self.folder / RunFiles.alarms, alarm.to_json())
        done = slot.number + 1
        if done % self.every and done % self.confusion_every:
            return
        point = point_of(self.tracker, slot.number, with_confusion=done % self.confusion_every == 0)
        for alarm in self._memorising(slot.number):
            add_line(self.folder / RunFiles.alarms, alarm.to_json())
        found = self.selector.estimate() if isinstance(self.selector, Estimates) else None
        if found is not None:
            value, low, high = (round(number, 4) for number in found)
            point = replace(point, held=(value, low, high))
        true = self._clean / self._arrived if self._arrived else None
        self._arrived = self._clean = 0
        add_line(self.folder / RunFiles.estimates, replace(point, true=true).to_json())

    def _alarms(self, slot: int) -> Iterator[AlarmRecord]:
        """Yield the alarms raised since the last slot."""
        if not isinstance(self.tracker, Alarm):
            return
        for kind, label, _ in self.tracker.pop_class_changes():
            named = self.classes[label] if label < len(self.classes) else str(label)
            yield AlarmRecord(slot, kind, subject=named)
        if change := self.tracker.pop_change():
            yield AlarmRecord(slot, change.kind, change.before, change.after)

    def _memorising(self, slot: int) -> Iterator[AlarmRecord]:
        """Yield an alarm where labels have been learned by heart since the last estimate."""
        found = None
        if isinstance(self.selector, SeesMemorising):
            found = self.selector.learned_by_heart()
        if found and not self._learned:
            at_first, now = (round(ratio, 4) for ratio in found)
            yield AlarmRecord(slot, LEARNED_BY_HEART, at_first, now)
        self._learned = found is not None

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, and the sizes of the files."""
        ends = {name: synced_size(self.folder / name) for name in WRITTEN}
        counts = {"arrived": self._arrived, "clean": self._clean, "learned": self._learned}
        return counts | {"ends": ends}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts, and remove the lines that were written since then."""
        self._arrived, self._clean = int(state["arrived"]), int(state["clean"])
        self._learned = bool(state.get("learned"))
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
    """Append new items; an earlier slot, as after a resume, replaces all from it on.

    Several alarms may be of one slot.
    """
    for item in new:
        if item is None:
            continue
        several = isinstance(item, AlarmRecord) and item not in known
        while known and known[-1].slot >= item.slot + several:
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
