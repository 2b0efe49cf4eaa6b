"""Batch reweighting (BARE): Patel and Sastry, WACV 2023, algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw_scored


@dataclass(frozen=True)
class BARE:
    """Pick rows whose label is believed in well above the mean belief of a batch.

    A row passes where its belief in its own label reaches mean + deviations * standard deviation
    of the batch's belief in that class. In the paper's letters: deviations is kappa, batch is m.
    `among`: whose beliefs the mean is taken over, all rows of the batch, as in the authors' code,
    or those with that label, as in their text. docs/methods/bare.md says why the code is right.
    `batch`: rows drawn at random to be judged, at least 4 a pick.
    """

    deviations: float = 1.0
    among: Literal["batch", "label"] = "batch"
    batch: int = 128

    def __post_init__(self) -> None:
        if self.among not in ("batch", "label"):
            raise ValueError(f'BARE takes means among "batch" or "label", got {self.among!r}.')

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k of the rows that pass; where none does, of the whole batch."""
        rows, beliefs = draw_scored(
            pool, lambda inputs, _: view.probabilities(inputs), max(self.batch, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        labels = pool.labels[rows]
        own = beliefs.gather(1, labels[:, None])[:, 0]
        passing = rows[own >= self._thresholds(beliefs, labels)[labels]]
        return Picks((passing if len(passing) else rows)[:k])  # the draw has shuffled them

    def _thresholds(self, beliefs: Tensor, labels: Tensor) -> Tensor:
        """One threshold a class: lambda in the paper."""
        counted = torch.ones_like(beliefs)
        if self.among == "label":
            counted = functional.one_hot(labels, beliefs.shape[1]).to(beliefs.dtype)
        shares = counted / counted.sum(dim=0)  # nan for a class without rows: nobody asks for it
        means = (shares * beliefs).sum(dim=0)
        variances = (shares * (beliefs - means).square()).sum(dim=0)
        return means + self.deviations * variances.sqrt()
