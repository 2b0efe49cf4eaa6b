"""The log of a monitor, read as columns."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tamis.monitoring.record import NUMBERS, SlotRecord
from tamis.runs.json_lines import Tail


class Warned(NamedTuple):
    """A warning of the monitor, and its slot."""

    slot: int
    text: str


class History:
    """Columns of a log, one entry a slot; NaN where a slot has no value.

    `refresh` reads what was written since. Where a resumed run has written a slot twice, the later
    line counts.
    """

    def __init__(self, path: Path) -> None:
        self.warnings: list[Warned] = []
        self._tail = Tail(path)
        self._columns = {name: array("d") for name in NUMBERS}
        self.refresh()

    def __len__(self) -> int:
        return len(self._columns["slot"])

    def refresh(self) -> bool:
        """Read what the log has gained, and return whether that was anything."""
        lines = self._tail.read()
        if self._tail.reset:
            self._cut(0)
        for line in lines:
            if record := SlotRecord.from_json(line):
                self._add(record)
        return bool(lines) or self._tail.reset

    def column(self, name: str) -> np.ndarray:
        """Return one number a slot."""
        return np.array(self._columns[name])

    def measured(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots that have a value, and the values."""
        values = self.column(name)
        known = ~np.isnan(values)
        return self.column("slot")[known], values[known]

    def smooth(self, name: str, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Return means over even stretches of slots, `points` at the most, and their middles."""
        slots, values = self.measured(name)
        parts = max(1, min(points, len(values)))
        edges = np.linspace(0, len(values), parts + 1).astype(int)
        if not len(values):
            return slots, values
        count = np.diff(edges)
        return (
            np.add.reduceat(slots, edges[:-1]) / count,
            np.add.reduceat(values, edges[:-1]) / count,
        )

    def last(self, name: str) -> float | None:
        """Return the newest value, if there is one."""
        values = self.measured(name)[1]
        return float(values[-1]) if len(values) else None

    def mean(self, name: str) -> float | None:
        """Return the mean over all slots that have a value."""
        values = self.measured(name)[1]
        return float(values.mean()) if len(values) else None

    def _add(self, record: SlotRecord) -> None:
        slots = self._columns["slot"]
        if slots and record.slot <= slots[-1]:
            self._cut(int(np.searchsorted(np.array(slots), record.slot)))
        for name, column in self._columns.items():
            value = getattr(record, name)
            column.append(np.nan if value is None else value)
        self.warnings += [Warned(record.slot, text) for text in record.warnings]

    def _cut(self, length: int) -> None:
        """Remove the slots from here on: they were written again."""
        slots = self._columns["slot"]
        first = slots[length] if length < len(slots) else np.inf
        for column in self._columns.values():
            del column[length:]
        self.warnings = [warned for warned in self.warnings if warned.slot < first]
