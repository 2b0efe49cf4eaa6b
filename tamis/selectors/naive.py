"""Train on whatever comes: the baseline that every selector must beat."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator

from tamis.data import Picks, Samples
from tamis.local import LocalModel
from tamis.selectors.protocol import all_rows, draw, usable


@dataclass(frozen=True)
class Naive:
    """Pick at random, right or wrong."""

    def select(self, pool: Samples, local: LocalModel, k: int, generator: Generator) -> Picks:
        """Pick k rows at random."""
        return Picks(usable(pool, draw(all_rows(pool), k, generator)))
