"""Train on whatever comes: the baseline that every selector must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.selectors.sampling import is_trainable, plan_rows


@dataclass(frozen=True)
class Naive:
    """Pick at random, right or wrong."""

    seeks_clean: ClassVar = False

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random."""
        (rows,) = self.plan(len(pool), k, generator)
        return self.choose(pool, view, k, to_device(rows, pool.labels.device))

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, ...]:
        """Draw the picks."""
        return (plan_rows(rows, k, generator),)

    def choose(self, pool: Samples, view: ModelView, k: int, *draws: Tensor) -> Picks:
        """Pick the rows that were drawn."""
        (rows,) = draws
        return Picks.only(rows, is_trainable(pool, rows))
