"""Timing side by side: everything in one process, turn by turn, so that a slow minute hits all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor

ROUNDS = 20
DRAWS = 2000


def race(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    wait: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = perf_counter,
    before: Callable[[], None] = lambda: None,
) -> dict[str, Tensor]:
    """Seconds of every contender in every round, after one round that does not count.

    `wait` ends what is still going on, and is part of a contender's time; `before` is not.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            before()
            wait()
            started = clock()
            run()
            wait()
            if turn:
                times[name].append(clock() - started)
    return {name: torch.tensor(seconds) for name, seconds in times.items()}


class Ratio(NamedTuple):
    """Median of the ratios of paired rounds, and the 95% interval of that median."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 2 if self.median < 100 else 0
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f} to {self.high:,.{digits}f})"


def ratio(above: Tensor, below: Tensor) -> Ratio:
    """How many times as long the first takes, round by round; interval by bootstrap."""
    ratios = above / below
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(ratios), (DRAWS, len(ratios)), generator=generator)
    low, high = ratios[drawn].median(dim=1).values.quantile(torch.tensor([0.025, 0.975])).tolist()
    return Ratio(ratios.median().item(), low, high)
