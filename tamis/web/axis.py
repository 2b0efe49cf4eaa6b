"""Axes: from where to where, where the ticks are, and how numbers on them are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
LOWEST = 0.1
"""Share of the values that may lie below an axis that is zoomed in."""
EDGE = 0.02
"""Room above the highest value, as a share of the axis: a line on the edge would be cut."""


class Range(NamedTuple):
    """The two ends of an axis."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return where a value is: 0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low)


def limits(columns: Sequence[Sequence[float]], *, share: bool, zoomed: bool) -> Range:
    """Return the ends of an axis on which these values can be read.

    It begins at 0, unless it is zoomed in: then below all but the lowest tenth of each column,
    where a run begins.
    """
    known = [np.asarray(column, float) for column in columns if len(column)]
    top = max((float(column.max()) for column in known), default=1.0)
    high = 1.0 if share else top or 1.0
    low = 0.0
    if zoomed and known:
        lowest = min(float(np.quantile(column, LOWEST)) for column in known)
        step = tick_step(high - lowest, 4)
        low = max(0.0, math.floor((lowest - (high - lowest) / 8) / step + 1e-9) * step)
        low = 0.0 if low < 0.2 else round(low, 6)
    return Range(low, high + EDGE * (high - low))


def tick_step(width: float, count: int) -> float:
    """Return a round step of about `count` to a width."""
    rough = max(width, 1e-9) / count
    size = 10.0 ** math.floor(math.log10(rough))
    return next(step * size for step in STEPS if step * size >= rough * (1 - 1e-9))


def ticks(ends: Range, count: int = 5, *, integers: bool = False) -> list[float]:
    """Return round numbers between two ends, about `count`."""
    step = tick_step(ends.high - ends.low, count)
    if integers:
        step = max(1.0, round(step))
    first = math.ceil(ends.low / step - 1e-9)
    last = math.floor(ends.high / step + 1e-9)
    return [round(at * step, 10) for at in range(first, last + 1)]


def tick_texts(values: Sequence[float]) -> list[str]:
    """Return numbers as they stand at ticks, all with as many digits behind the point.

    >>> tick_texts([0.9, 0.95, 1.0]), tick_texts([0.0, 1500.0])
    (['0.90', '0.95', '1.00'], ['0', '1,500'])
    """
    digits = max((len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in values), default=0)
    return [f"{value:,.{digits}f}" for value in values]
