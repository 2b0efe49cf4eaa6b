"""Iterative noisy cross-validation: Chen, Liao, Chen and Zhang, ICML 2019, algorithm 2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, draw_scored

MOST_REMOVED = 2.0
"""Maximum number of rows removed for each row that agrees, from the authors' code."""
CONSTANT = 1e-6


@dataclass(frozen=True)
class INCV:
    """Keep rows whose label is predicted from the other half of the candidates.

    Instead of a deep net for each half, a linear head is fitted to the local model's features in
    closed form. `candidates`: random rows of the pool to judge, at least 4 for each pick. `rounds`
    is the paper's N. `remove`: rows of largest loss to remove for each row that agrees, the paper's
    r; None estimates it, 0 is what the authors use for noise that depends on the class. `ridge`:
    penalty of a head, in units of the mean variance of a feature.
    """

    candidates: int = 512
    rounds: int = 4
    remove: float | None = None
    ridge: float = 1.0

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.ridge <= 0:
            raise ValueError(f"INCV needs rounds >= 1 and ridge > 0, got {self}.")

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among those that agree, all of them if there are fewer."""
        rows, features = draw_scored(
            pool, lambda inputs, _: view.features(inputs), max(self.candidates, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        agree = self.cross_validate(features.double(), pool.labels[rows], generator)
        return Picks(draw(rows[agree], k, generator))

    def cross_validate(self, features: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Return a mask of the rows that some round selects (S in the paper); all for one label."""
        classes, given = labels.unique(return_inverse=True)
        if len(classes) < 2:
            return torch.ones_like(labels, dtype=torch.bool)
        wanted = one_hot(given).to(features.dtype)
        selected = torch.zeros_like(labels, dtype=torch.bool)
        left = torch.ones_like(selected)
        remove = self.remove
        for _ in range(self.rounds):
            first, second = draw(left.nonzero()[:, 0], len(left), generator).tensor_split(2)
            if not len(second):
                break
            before = selected.nonzero()[:, 0]
            for learned, judged in ((first, second), (second, first)):
                train = torch.cat([before, learned])
                scores = predict(features[train], wanted[train], features[judged], self.ridge)
                own = scores.gather(1, given[judged][:, None])[:, 0]
                agree = own >= scores.amax(dim=1)  # a tie is no disagreement
                if remove is None:
                    remove = estimate_remove(agree.double().mean().item(), len(classes))
                worst = own.argsort(stable=True)[: int(remove * int(agree.sum()))]
                selected[judged[agree]] = True
                left[judged[agree]] = False
                left[judged[worst]] = False
        return selected


def predict(features: Tensor, wanted: Tensor, others: Tensor, ridge: float) -> Tensor:
    """Fit a linear head by ridge regression on one-hot labels, and return scores of other rows."""
    mean, spread = features.mean(dim=0), features.std(dim=0, correction=0)
    # A constant feature has a deviation of rounding errors; dividing by it would add noise.
    spread = torch.where(spread > CONSTANT * mean.abs(), spread, torch.inf)
    points = (features - mean) / spread
    shares = wanted.mean(dim=0)
    gram = points.T @ points
    gram.diagonal().add_(ridge * len(points))
    head = torch.cholesky_solve(points.T @ (wanted - shares), torch.linalg.cholesky(gram))
    return (others - mean) / spread @ head + shares


def estimate_remove(agreement: float, classes: int) -> float:
    """Estimate r = noise / (1 - noise) from the share of rows that agree.

    Under symmetric noise that share is (1 - noise)^2 + noise^2 / (classes - 1), solved for noise.
    """
    most = 1 - 1 / classes  # noise of labels drawn at random, where the share is lowest
    noise = most * (1 - math.sqrt(max(0.0, 1 - (1 - agreement) / most)))
    return min(MOST_REMOVED, noise / (1 - noise))
