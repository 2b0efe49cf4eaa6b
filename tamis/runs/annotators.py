"""Annotators over time: how good each is, what he confuses, and who has gone bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tamis.noise import Decline, JointLabels
from tamis.runs.estimates import MALFORMED, AlarmRecord, append_by_slot, share, share_or_none
from tamis.runs.json_lines import JsonObject, Tail, add_line, int_or_none, synced_size, truncate
from tamis.runs.layout import RunFiles

MOST_WRITTEN = 40
"""Annotators of a line: half of them the worst, half of them the most active."""
FEWEST_LABELS = 20
"""Labels below which nobody is among the worst."""
GONE_BAD = "annotator"
"""Kind of an alarm about one who has gone bad."""
WRITTEN = (RunFiles.annotators, RunFiles.alarms)


@dataclass(frozen=True)
class AnnotatorState:
    """An annotator at a slot: labels given, estimated accuracy, and what he confuses most.

    He gives `label` to a share of the rows of class `true`. `since` is the number of the label, his
    first being 1, from which on he has been bad; `before` and `after` are shares of his labels that
    agreed with the others. They are None for whoever has not gone bad.
    """

    name: str
    labels: int
    accuracy: float
    true: str
    label: str
    share: float
    since: int | None = None
    before: float | None = None
    after: float | None = None

    @classmethod
    def from_json(cls, line: JsonObject) -> AnnotatorState:
        """Read a JSON object; raise where it is not the state of an annotator."""
        return cls(
            str(line["name"]),
            int(line["labels"]),
            share(line["accuracy"]),
            str(line["true"]),
            str(line["label"]),
            share(line["share"]),
            int_or_none(line.get("since")),
            share_or_none(line.get("before")),
            share_or_none(line.get("after")),
        )


@dataclass(frozen=True)
class AnnotatorPoint:
    """Annotators at a slot, the worst first: of `total`, the worst and the most active."""

    slot: int
    total: int
    annotators: tuple[AnnotatorState, ...]

    def to_json(self) -> JsonObject:
        """Return the point as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> AnnotatorPoint | None:
        """Read a JSON object; None where it is not a point."""
        try:
            states = tuple(map(AnnotatorState.from_json, line["annotators"]))
            return cls(int(line["slot"]), int(line["total"]), states)
        except (*MALFORMED, AttributeError):
            return None


class AnnotatorLog:
    """Writes annotators to a run's folder every so many slots, and an alarm for each who goes bad.

    Parameters
    ----------
    folder: folder of the run.
    labels: the joint labels, which know the annotators.
    names: returns the names of annotators by number; whoever has none is called by his number.
    classes: names of the classes, which may be set again when classes come up.
    every: slots from one line to the next.
    """

    def __init__(
        self,
        folder: Path,
        labels: JointLabels,
        names: Callable[[], Sequence[str]],
        classes: Sequence[str],
        *,
        every: int = 50,
    ) -> None:
        self.folder, self.labels, self.names, self.classes = folder, labels, names, classes
        self.every = every
        self._written = -1

    def update(self, slot: int) -> None:
        """Write a line where one is due, and an alarm for each who has gone bad."""
        for decline in self.labels.pop_declines():
            name = named(self.names(), decline.annotator)
            before, after = round(decline.before, 4), round(decline.after, 4)
            alarm = AlarmRecord(slot, GONE_BAD, before, after, name)
            add_line(self.folder / RunFiles.alarms, alarm.to_json())
        if (slot + 1) % self.every == 0:
            self.write(slot)

    def write(self, slot: int) -> None:
        """Write a line, unless it is there."""
        if slot > self._written and len(self.labels.labels_given()):
            self._written = slot
            point = point_of(self.labels, slot, self.names(), self.classes)
            add_line(self.folder / RunFiles.annotators, point.to_json())

    def state_dict(self) -> dict[str, Any]:
        """Return the last slot written, and the sizes of the files."""
        ends = {name: synced_size(self.folder / name) for name in WRITTEN}
        return {"written": self._written, "ends": ends}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after that slot, and remove the lines that were written since then."""
        self._written = int(state["written"])
        for name in WRITTEN:
            truncate(self.folder / name, int(state["ends"][name]))


def point_of(
    labels: JointLabels, slot: int, names: Sequence[str], classes: Sequence[str]
) -> AnnotatorPoint:
    """Return the annotators at a slot, the worst first; all numbers have four digits."""
    accuracy, given = labels.accuracy(), labels.labels_given()
    counted = torch.where(given >= FEWEST_LABELS, accuracy, 1 + accuracy)
    worst = counted.argsort(stable=True)[: MOST_WRITTEN // 2].tolist()
    active = given.argsort(stable=True, descending=True)[: MOST_WRITTEN // 2].tolist()
    chosen = sorted(n for n in {*worst, *active} if given[n] > 0)
    chosen.sort(key=lambda number: float(accuracy[number]))
    declines = {decline.annotator: decline for decline in labels.declines}
    confusion = labels.confusion()[chosen]
    confusion.diagonal(dim1=1, dim2=2).zero_()
    costs = (labels.class_shares()[:, None] * confusion).flatten(start_dim=1).argmax(dim=1)
    states = []
    for at, number in enumerate(chosen):
        true, label = divmod(int(costs[at]), labels.classes)
        states.append(
            AnnotatorState(
                named(names, number),
                int(given[number]),
                round(float(accuracy[number]), 4),
                named(classes, true),
                named(classes, label),
                round(float(confusion[at, true, label]), 4),
                *bad_since(declines.get(number)),
            )
        )
    return AnnotatorPoint(slot, int((given > 0).sum()), tuple(states))


def bad_since(decline: Decline | None) -> tuple[int | None, float | None, float | None]:
    """Return from which label on an annotator has been bad, and his agreement before and after."""
    if decline is None:
        return None, None, None
    return decline.since + 1, round(decline.before, 4), round(decline.after, 4)


def named(names: Sequence[str], number: int) -> str:
    """Return the name of a number; itself where it has none."""
    return names[number] if number < len(names) else str(number)


class AnnotatorHistory:
    """The annotators of a run over time, as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self.points: list[AnnotatorPoint] = []
        self._tail = Tail(folder / RunFiles.annotators)
        self.refresh()

    @property
    def newest(self) -> AnnotatorPoint | None:
        """The annotators now; None where the run has none."""
        return self.points[-1] if self.points else None

    def refresh(self) -> bool:
        """Read what the file has gained, and return whether that was anything."""
        points = self._tail.read()
        if self._tail.reset:
            self.points.clear()
        append_by_slot(self.points, map(AnnotatorPoint.from_json, points))
        return bool(points) or self._tail.reset

    def accuracies(self, name: str) -> tuple[list[int], list[float]]:
        """Return the slots at which an annotator was written, and his accuracy there."""
        found = [
            (point.slot, one.accuracy)
            for point in self.points
            for one in point.annotators
            if one.name == name
        ]
        return [slot for slot, _ in found], [accuracy for _, accuracy in found]
