"""Which classes have come up, and which are gone, by the labels that arrive."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

ALPHA = 1e-6
"""Probability that a class which keeps its rate is taken for gone, for each of its labels."""
BLOCK = 200
"""Gaps between labels of a class, after which those before the last so many are forgotten."""
COLUMNS = 6
LAST, COUNT, LENGTH, OLD_COUNT, OLD_LENGTH, GONE = range(COLUMNS)
"""Of a class: row of its last label, -1 before the first; number and length of the gaps in this
block and in the one before; whether it was reported as gone."""

NO_LABELS = torch.empty(0, dtype=torch.long)


class ClassChange(NamedTuple):
    """A class that has come up, or is gone, and the row at which that was noticed."""

    kind: Literal["new class", "class gone"]
    label: int
    row: int


class ClassWatch:
    """Reports classes that come up, and classes whose labels no longer arrive.

    Between two labels of a class is a gap of some rows. If labels arrive independently at a steady
    rate, then after n gaps of a total length T the next one exceeds m with probability
    (1 + m / T)^-n, whatever the rate is. Where that falls below 1 in a million, the class is gone.
    So of a million labels one is followed by a false report, and a class with few labels is not
    judged early: one of 20 labels is gone after as many rows as all of these took. Labels that came
    in one burst are not independent: a gap of fewer than `least` rows is never too long. A class is
    reported once until it returns; its gaps are then counted from the beginning.
    """

    def __init__(self, classes: int, least: float = 1000.0) -> None:
        self.least = least
        self._seen = torch.zeros(classes, COLUMNS, dtype=torch.float64)
        self._seen[:, LAST] = -1
        self._rows = 0
        self._unread: list[Tensor] = []
        self._awaited: list[int] = []  # classes that can come up, but have no label yet
        self._changes: list[ClassChange] = []

    def grow(self, classes: int) -> None:
        """Watch so many classes, and report the new ones once they have a label."""
        before = len(self._seen)
        self._awaited += range(before, classes)
        self._seen = functional.pad(self._seen, (0, 0, 0, max(0, classes - before)))
        self._seen[before:, LAST] = -1

    def update(self, labels: Tensor) -> None:
        """Note labels in the order in which they arrived.

        Nothing waits for their device, but while a class is awaited.
        """
        self._unread.append(labels)
        if self._awaited:
            self.report_new(labels)

    def report_new(self, labels: Tensor) -> None:
        """Report those of the classes awaited that are among these labels."""
        for label in sorted(set(labels.tolist()).intersection(self._awaited)):
            row = self._rows + sum(map(len, self._unread))
            self._changes.append(ClassChange("new class", label, row))
            self._awaited.remove(label)

    def check(self) -> None:
        """Count the labels noted, and report the classes that are gone."""
        labels, self._unread = torch.cat([NO_LABELS, *map(Tensor.cpu, self._unread)]), []
        rows = self._rows + torch.arange(len(labels))
        known = (labels >= 0) & (labels < len(self._seen))
        rows, labels = rows[known].double(), labels[known]
        self._rows += len(known)
        found, place, counts = labels.unique(return_inverse=True, return_counts=True)
        first = torch.full((len(found),), torch.inf, dtype=torch.float64)
        first.scatter_reduce_(0, place, rows, "amin")
        last = torch.zeros_like(first).scatter_reduce_(0, place, rows, "amax")
        seen = self._seen[found]
        # After a long absence, as at the start, the first label begins a gap and ends none.
        begins = (seen[:, LAST] < 0) | (seen[:, GONE] > 0)
        seen[begins, COUNT:] = 0
        seen[:, LENGTH] += last - torch.where(begins, first, seen[:, LAST])
        seen[:, COUNT] += counts - begins.long()
        seen[:, LAST] = last
        full = seen[:, COUNT] >= BLOCK
        seen[full, OLD_COUNT:GONE] = seen[full, COUNT:OLD_COUNT]
        seen[full, COUNT:OLD_COUNT] = 0
        self._seen[found] = seen
        self._report_gone()

    def pop_changes(self) -> list[ClassChange]:
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def state_dict(self) -> dict[str, Tensor]:
        """Return what is known of the classes, and the changes not yet returned."""
        pending = [(kind == "class gone", label, row) for kind, label, row in self._changes]
        return {
            "unread": torch.cat([NO_LABELS, *map(Tensor.cpu, self._unread)]),
            "seen": self._seen.clone(),
            "rows": torch.tensor(self._rows),
            "awaited": torch.tensor(self._awaited, dtype=torch.long),
            "changes": torch.tensor(pending, dtype=torch.long).reshape(-1, 3),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._unread, self._awaited = [state["unread"]], state["awaited"].tolist()
        self._seen, self._rows = state["seen"].cpu().clone(), int(state["rows"])
        self._changes = [
            ClassChange("class gone" if gone else "new class", label, row)
            for gone, label, row in state["changes"].tolist()
        ]

    def _report_gone(self) -> None:
        seen = self._seen
        count, length = seen[:, COUNT] + seen[:, OLD_COUNT], seen[:, LENGTH] + seen[:, OLD_LENGTH]
        gap = self._rows - seen[:, LAST]
        unlikely = -count * (gap / length.clamp_min(1)).log1p() < torch.tensor(ALPHA).log()
        gone = unlikely & (gap >= self.least) & (count > 0) & (seen[:, GONE] == 0)
        for label in gone.nonzero()[:, 0].tolist():
            self._changes.append(ClassChange("class gone", label, self._rows))
        seen[gone, GONE] = 1
