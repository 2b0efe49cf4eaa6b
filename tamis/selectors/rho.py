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
    """Pick the rows whose loss is highest above what a better model would still lose on them.

    `holdout`: a model trained on data of its own, whose losses are the irreducible ones. Without
    it, `view` stands in for it: the running average of the weights, or a window of several
    states. A window of 1 is the weights as they are, every difference is 0, and picks would be
    those of chance under the name of RHO: that raises a ValueError.

    In the paper's letters: batch is n_B, rows drawn at random to be judged, at least 4 a pick;
    k is n_b.
    """

    preferred_window: ClassVar = "average"
    seeks_clean: ClassVar = False  # it looks for hard rows

    holdout: ModelView | None = None
    batch: int = 320

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick the k rows of a random batch with the highest reducible loss."""
        if self.holdout is None and isinstance(view.memory, Window) and view.memory.length == 1:
            raise ValueError(NOTHING_TO_COMPARE)

        def gain(inputs: Tensor, labels: Tensor) -> Tensor:
            irreducible = (self.holdout or view).losses(inputs, labels)
            return view.newest().losses(inputs, labels) - irreducible  # eq. 3

        rows, gains = draw_scored(pool, gain, max(self.batch, 4 * k), generator)
        # The draw has shuffled them, so that equals are picked among by chance.
        return Picks(rows[gains.topk(min(k, len(rows))).indices])
