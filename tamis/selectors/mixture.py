"""The split of DivideMix: Li, Socher and Hoi, ICLR 2020, section 3.1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw_scored


@dataclass(frozen=True)
class Mixture:
    """Split losses into a low and a high Gaussian, and pick rows that belong to the low one.

    In the paper's letters: threshold is tau, what a row's probability of the low Gaussian (w)
    must exceed. `batch`: random rows to fit the mixture to, at least 4 for each pick.
    """

    threshold: float = 0.5
    batch: int = 256

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"A probability exceeds a threshold in [0, 1), got {self.threshold}.")

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k of the rows over the threshold; if none is, those nearest to it."""
        rows, losses = draw_scored(pool, view.losses, max(self.batch, 4 * k), generator)
        if len(rows) < 2 or losses.max() == losses.min():  # nothing to split
            return Picks(rows[:k])
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
        low = low_probabilities(losses, seed)
        passing = rows[low > self.threshold]
        if not len(passing):
            passing = rows[low.argsort(descending=True)]
        return Picks(passing[:k])  # in random order


def low_probabilities(losses: Tensor, seed: int) -> Tensor:
    """Return the probability of the low Gaussian for each loss, fitted as in the authors' code."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    scaled = losses.cpu().double()
    scaled = (scaled - scaled.min()) / (scaled.max() - scaled.min())
    points = scaled[:, None].numpy()
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten steps are enough
        mixture.fit(points)
    low = mixture.predict_proba(points)[:, mixture.means_.argmin()]
    return torch.from_numpy(low).to(losses.device)
