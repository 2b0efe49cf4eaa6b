"""MentorNet's predefined curriculum, closed form: Jiang, Zhou, Leung, Li and Fei-Fei, ICML 2018."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw_scored


@dataclass
class MentorNet:
    """Weight rows by how far their loss exceeds a running percentile of losses.

    In the paper's letters: the running percentile is lambda_1, softness is lambda_2, percentile
    is p, weights are v. A row at or under the running percentile has weight 1; above it the
    weight falls to 0 over `softness` of loss, or at once where that is 0: self-paced learning.

    `percentile` is an estimate of the clean ratio. `burn_in`: first slots, in which every row has
    weight 1 while the percentile is updated. `batch`: random rows to judge, at least 4 for each
    pick.
    """

    percentile: float = 0.7
    softness: float = 1.0
    decay: float = 0.9
    burn_in: int = 0
    batch: int = 128

    def __post_init__(self) -> None:
        if not (0 <= self.percentile <= 1 and self.softness >= 0 and 0 <= self.decay < 1):
            raise ValueError(
                "MentorNet needs a percentile in [0, 1], a softness of at least 0 and a decay in "
                f"[0, 1), got {self}."
            )
        self._limit = 0.0
        self._slots = 0

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k rows of a weight above 0, with their weights."""
        rows, losses = draw_scored(pool, view.losses, max(self.batch, 4 * k), generator)
        if not len(rows):
            return Picks(rows)
        self._update_limit(losses.quantile(self.percentile).item())
        weights = self._weights(losses)
        heavy = weights > 0
        return Picks(rows[heavy][:k], weights[heavy][:k])  # in random order

    def state_dict(self) -> dict[str, Tensor]:
        """Return the running percentile and the count of slots."""
        return {
            "limit": torch.tensor(self._limit, dtype=torch.float64),
            "slots": torch.tensor(self._slots),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._limit, self._slots = state["limit"].item(), int(state["slots"])

    def _update_limit(self, level: float) -> None:
        """Update the running percentile with that of a batch; the first sets it."""
        share = 1 - self.decay if self._slots else 1
        self._limit += share * (level - self._limit)
        self._slots += 1

    def _weights(self, losses: Tensor) -> Tensor:
        """Return v in [0, 1] of least v * loss + lambda_2 v^2 / 2 - (lambda_1 + lambda_2) v."""
        if self._slots <= self.burn_in:
            return torch.ones_like(losses)
        excess = losses - self._limit
        if self.softness == 0:
            return (excess <= 0).to(losses.dtype)
        return (1 - excess / self.softness).clamp(0, 1)
