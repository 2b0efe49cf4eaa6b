"""Train on correct labels only: the upper bound for every selector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, trainable


@dataclass(frozen=True)
class Oracle:
    """Pick at random among the rows with correct labels, which only a simulation knows."""

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k clean rows at random, all of them if there are fewer."""
        if pool.clean is None:
            raise ValueError("The oracle needs a simulated stream: these samples lack `clean`.")
        return Picks(trainable(pool, draw(pool.clean.nonzero()[:, 0], k, generator)))
