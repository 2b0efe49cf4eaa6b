"""How the clean ratio, the share of labels that are right, moves over a stream.

A schedule maps time, from 0 at the first slot to 1 at the last, to the clean ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Schedule = Callable[[float], float]


def check_ratio(*ratios: float) -> None:
    """Raise unless all are shares, from 0 to 1."""
    for ratio in ratios:
        if not 0 <= ratio <= 1:
            raise ValueError(f"A clean ratio lies between 0 and 1, got {ratio}.")


@dataclass(frozen=True)
class Constant:
    """The same clean ratio throughout."""

    ratio: float = 0.5

    def __post_init__(self) -> None:
        check_ratio(self.ratio)

    def __call__(self, time: float) -> float:
        """Return the clean ratio at a time."""
        return self.ratio


@dataclass(frozen=True)
class Steps:
    """One clean ratio after another, each for the same stretch of time.

    >>> [Steps((0.9, 0.5))(time) for time in (0, 0.49, 0.5, 1)]
    [0.9, 0.9, 0.5, 0.5]
    """

    ratios: tuple[float, ...] = (0.9, 0.5, 0.8, 0.4)

    def __post_init__(self) -> None:
        check_ratio(*self.ratios)
        if not self.ratios:
            raise ValueError("Steps need at least one clean ratio.")

    def __call__(self, time: float) -> float:
        """Return the clean ratio at a time."""
        return self.ratios[min(int(time * len(self.ratios)), len(self.ratios) - 1)]


@dataclass(frozen=True)
class Ramp:
    """A straight line from one clean ratio to another.

    >>> Ramp(0.9, 0.5)(0.5)
    0.7
    """

    first: float = 0.9
    last: float = 0.4

    def __post_init__(self) -> None:
        check_ratio(self.first, self.last)

    def __call__(self, time: float) -> float:
        """Return the clean ratio at a time."""
        return self.first + (self.last - self.first) * time


@dataclass(frozen=True)
class Wave:
    """Up and down between two clean ratios, `turns` times, from the highest on."""

    highest: float = 0.9
    lowest: float = 0.4
    turns: float = 2

    def __post_init__(self) -> None:
        check_ratio(self.highest, self.lowest)

    def __call__(self, time: float) -> float:
        """Return the clean ratio at a time."""
        share = (1 + math.cos(2 * math.pi * self.turns * time)) / 2
        return self.lowest + (self.highest - self.lowest) * share


@dataclass(frozen=True)
class Burst:
    """A usual clean ratio, and a bad one between two moments.

    >>> [Burst(0.9, 0.2, 0.4, 0.6)(time) for time in (0, 0.4, 0.6)]
    [0.9, 0.2, 0.9]
    """

    usual: float = 0.9
    during: float = 0.3
    start: float = 0.4
    stop: float = 0.6

    def __post_init__(self) -> None:
        check_ratio(self.usual, self.during)

    def __call__(self, time: float) -> float:
        """Return the clean ratio at a time."""
        return self.during if self.start <= time < self.stop else self.usual


SCHEDULES = (Constant, Steps, Ramp, Wave, Burst)
