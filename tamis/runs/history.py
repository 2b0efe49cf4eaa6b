"""A monitor's log read as columns, as far as it has come."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tamis.runs.json_lines import JsonObject, Tail
from tamis.runs.layout import RunFiles

KEPT = (
    "slot", "accuracy", "accuracy_ema", "purity", "recall", "coverage", "agreement", "loss",
    "seconds", "select_seconds", "seen", "held", "skipped", "picks", "distinct",
)  # fmt: skip


class Warned(NamedTuple):
    """What the monitor warned of, and in which slot."""

    slot: int
    text: str


class History:
    """Columns of a log, one entry a slot; NaN where a slot has no value.

    `update` reads what has come since. A run that was resumed has written some slots twice: the
    later ones count.
    """

    def __init__(self, folder: Path) -> None:
        self.warnings: list[Warned] = []
        self._tail = Tail(folder / RunFiles.log)
        self._columns = {name: array("d") for name in KEPT}
        self.refresh()

    def __len__(self) -> int:
        return len(self._columns["slot"])

    def refresh(self) -> bool:
        """Read on, and say whether anything was new."""
        lines = self._tail.read()
        if self._tail.reset:
            self._cut(0)
        for line in lines:
            if isinstance(line.get("slot"), int):
                self._add(line)
        return bool(lines) or self._tail.reset

    def column(self, name: str) -> np.ndarray:
        """Return one number a slot."""
        return np.array(self._columns[name])

    def measured(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Slots where a value is there, and the values."""
        values = self.column(name)
        there = ~np.isnan(values)
        return self.column("slot")[there], values[there]

    def smooth(self, name: str, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Means over even stretches of slots, at the middle of each; no more than so many."""
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
        """Return the newest value, if there ever was one."""
        values = self.measured(name)[1]
        return float(values[-1]) if len(values) else None

    def mean(self, name: str) -> float | None:
        """Return the mean over all slots that have a value."""
        values = self.measured(name)[1]
        return float(values.mean()) if len(values) else None

    def _add(self, line: JsonObject) -> None:
        slots = self._columns["slot"]
        if slots and line["slot"] <= slots[-1]:
            self._cut(int(np.searchsorted(np.array(slots), line["slot"])))
        for name, column in self._columns.items():
            value = line.get(name)
            column.append(value if isinstance(value, int | float) else np.nan)
        texts = line.get("warnings")
        for text in texts if isinstance(texts, list) else ():
            self.warnings.append(Warned(line["slot"], str(text)))

    def _cut(self, length: int) -> None:
        """Forget slots from here on: they are told again."""
        slots = self._columns["slot"]
        first = slots[length] if length < len(slots) else np.inf
        for column in self._columns.values():
            del column[length:]
        self.warnings = [warned for warned in self.warnings if warned.slot < first]
