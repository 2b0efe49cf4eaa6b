"""Train on the right labels alone: the ceiling for every selector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, trainable


@dataclass(frozen=True)
class Oracle:
    """Pick at random among the rows whose labels are right, which only a simulation knows."""

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k clean rows at random, fewer where there are fewer."""
        if pool.clean is None:
            raise ValueError("The oracle needs a simulated stream: these samples lack `clean`.")
        return Picks(trainable(pool, draw(pool.clean.nonzero()[:, 0], k, generator)))
