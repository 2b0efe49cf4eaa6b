"""Reducible holdout loss (RHO-LOSS): Mindermann et al., ICML 2022, algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView, Window
from tamis.selectors.sampling import draw_scored

NOTHING_TO_COMPARE = (
    "RHO compares the weights as they are with a holdout model, or with their running average; "
    "here it has neither. Use Trainer(window='average'), or RHO(holdout=ModelView(...))."
)


@dataclass(frozen=True)
class RHO:
    """Pick the rows whose loss most exceeds that of a better model.

    `holdout`: a model trained on other data, whose losses are the irreducible ones. Without it,
    the running average of the weights, or a window of several states, takes its place. With a
    window of 1 every difference would be 0 and picks random: that raises a ValueError.

    In the paper's letters: batch is n_B, random rows to judge, at least 4 for each pick; k is n_b.
    """

    preferred_window: ClassVar = "average"
    seeks_clean: ClassVar = False  # it looks for hard rows

    holdout: ModelView | None = None
    batch: int = 320

    @property
    def cannot_grow(self) -> str:
        """A sentence where a holdout model has a fixed number of classes."""
        return "" if self.holdout is None else "The holdout model of RHO knows no other classes."

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick the k rows of a random batch with the highest reducible loss."""
        if self.holdout is None and isinstance(view.memory, Window) and view.memory.length == 1:
            raise ValueError(NOTHING_TO_COMPARE)

        def gain(inputs: Tensor, labels: Tensor) -> Tensor:
            irreducible = (self.holdout or view).losses(inputs, labels)
            return view.newest().losses(inputs, labels) - irreducible  # eq. 3

        rows, gains = draw_scored(pool, gain, max(self.batch, 4 * k), generator)
        # Rows are in random order, so that ties are broken at random.
        return Picks(rows[gains.topk(min(k, len(rows))).indices])
