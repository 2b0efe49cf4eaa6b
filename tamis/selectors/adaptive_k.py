"""Adaptive-k, by the authors' notebook: Dedeoglu, Kesgin and Amasyali, Front. Comput. Sci. 2024."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw_scored

EPSILON = 1e-8


@dataclass
class AdaptiveK:
    """Pick rows whose loss is under a threshold that follows the mean losses of batches.

    The threshold is m / sqrt(v), from running averages m of the mean loss of a batch and v of
    its square, both from 0. In the letters of the authors' code: mean_decay is beta1,
    square_decay is beta2. `batch`: random rows to judge, at least 4 for each pick.
    """

    mean_decay: float = 0.9
    square_decay: float = 0.999
    batch: int = 128

    def __post_init__(self) -> None:
        if not (0 <= self.mean_decay < 1 and 0 <= self.square_decay < 1):
            raise ValueError(f"The decay of an average lies in [0, 1), got {self}.")
        self._mean = self._square = 0.0

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k of the rows under the threshold; if none is, of the complete batch."""
        rows, losses = draw_scored(pool, view.losses, max(self.batch, 4 * k), generator)
        if not len(rows):
            return Picks(rows)
        passing = rows[losses <= self._update_threshold(losses.mean().item())]
        return Picks((passing if len(passing) else rows)[:k])  # in random order

    def state_dict(self) -> dict[str, Tensor]:
        """Return the two running averages."""
        return {"averages": torch.tensor([self._mean, self._square], dtype=torch.float64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the averages that `state_dict` returned."""
        self._mean, self._square = state["averages"].tolist()

    def _update_threshold(self, level: float) -> float:
        """Update the averages with a batch's mean loss, and return the threshold."""
        self._mean += (1 - self.mean_decay) * (level - self._mean)
        self._square += (1 - self.square_decay) * (level**2 - self._square)
        return self._mean / (math.sqrt(self._square) + EPSILON)
