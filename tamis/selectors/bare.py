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
    """Pick rows whose label has a predicted probability well above the mean of a batch.

    A row passes if the probability of its label is at least mean + deviations * standard
    deviation of that class over the batch. In the paper's letters: deviations is kappa, batch is
    m. `among`: the rows that mean and deviation are taken over, all of the batch, as in the
    authors' code, or those with that label, as in their text. docs/methods/bare.md has the reason
    for the default. `batch`: random rows to judge, at least 4 for each pick.
    """

    deviations: float = 1.0
    among: Literal["batch", "label"] = "batch"
    batch: int = 128

    def __post_init__(self) -> None:
        if self.among not in ("batch", "label"):
            raise ValueError(f'BARE takes means among "batch" or "label", got {self.among!r}.')

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k of the rows that pass; if none does, of the complete batch."""
        rows, probabilities = draw_scored(
            pool, lambda inputs, _: view.probabilities(inputs), max(self.batch, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        labels = pool.labels[rows]
        own = probabilities.gather(1, labels[:, None])[:, 0]
        passing = rows[own >= self._thresholds(probabilities, labels)[labels]]
        return Picks((passing if len(passing) else rows)[:k])  # in random order

    def _thresholds(self, probabilities: Tensor, labels: Tensor) -> Tensor:
        """Return the threshold of each class: lambda in the paper."""
        counted = torch.ones_like(probabilities)
        if self.among == "label":
            counted = functional.one_hot(labels, probabilities.shape[1]).to(probabilities.dtype)
        shares = counted / counted.sum(dim=0)  # nan for a class without rows, which is never read
        means = (shares * probabilities).sum(dim=0)
        variances = (shares * (probabilities - means).square()).sum(dim=0)
        return means + self.deviations * variances.sqrt()
