"""Read a monitor's log back as columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


class Log:
    """Columns of a log, one entry a slot; NaN where a slot has no value."""

    def __init__(self, path: Path) -> None:
        with path.open(encoding="utf-8") as file:
            self._lines = [json.loads(line) for line in file]

    def column(self, name: str) -> np.ndarray:
        """Return one number a slot."""
        values = [line[name] for line in self._lines]
        return np.array([np.nan if value is None else value for value in values], float)

    def measured(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Slots where a value is there, and the values."""
        values = self.column(name)
        there = ~np.isnan(values)
        return self.column("slot")[there], values[there]

    def smooth(self, name: str, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Means over stretches of `width` slots, at the middle of each."""
        slots, values = self.measured(name)
        count = max(1, len(values) // width)
        pairs = zip(np.array_split(slots, count), np.array_split(values, count), strict=True)
        middle, mean = zip(*((s.mean(), v.mean()) for s, v in pairs if len(v)), strict=True)
        return np.array(middle), np.array(mean)
