"""Iterative learning with open-set noisy labels: Wang, Liu, Ma, Bailey et al., CVPR 2018, pcLOF."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.id_memory import IdMemory
from tamis.selectors.sampling import draw, draw_scored

HIGHEST = 10.0
"""Bound on a factor: near duplicates it may be 1e10, and would dominate a mean."""


@dataclass
class PCLOF:
    """Keep rows that are not outliers among those of their label in feature space.

    `candidates`: random rows of the pool to judge, at least 4 for each pick. `neighbours`: share
    of the rows of a label that a row is compared with, at least one; half, so that a cluster of
    wrong labels is not dense by itself while it is the smaller part. `threshold`: drop rows that
    are outliers with at least this probability. Local outlier factors are averaged over the slots
    in which a row was judged, by its id, which must name the same row in every slot.
    """

    candidates: int = 512
    neighbours: float = 0.5
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.neighbours <= 1 and 0 < self.threshold <= 1):
            raise ValueError(f"PCLOF needs neighbours and threshold in (0, 1], got {self}.")
        self._factors = IdMemory()

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among the inliers, all of them if there are fewer."""
        rows, features = draw_scored(
            pool, lambda inputs, _: view.features(inputs), max(self.candidates, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        labels, ids = pool.labels[rows], pool.ids[rows]
        factors = outlier_factors(features, labels, self.neighbours)
        total, times = self._factors.get(ids, 2).unbind(dim=1)
        total, times = total + factors, times + 1
        self._factors.put(ids, torch.stack([total, times], dim=1))
        self._factors.retain(pool.ids)
        inliers = outlier_probabilities(total / times, labels) < self.threshold
        return Picks(draw(rows[inliers], k, generator))

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Forget the factors of these rows, measured among rows of another label."""
        self._factors.remove(ids)

    def remove(self, ids: Tensor) -> None:
        """Forget the factors of these rows."""
        self._factors.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the sum and the number of the outlier factors of each id."""
        return {"ids": self._factors.ids, "factors": self._factors.values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the factors that `state_dict` returned."""
        self._factors.ids, self._factors.values = state["ids"], state["factors"]


def outlier_factors(features: Tensor, labels: Tensor, neighbours: float) -> Tensor:
    """Return the local outlier factor of each row among those of its label; 1 for an only row."""
    try:
        from sklearn import config_context
        from sklearn.neighbors import LocalOutlierFactor
    except ModuleNotFoundError:
        raise ImportError("PCLOF needs scikit-learn: pip install 'tamis[audit]'.") from None

    points, factors = features.float().cpu().numpy(), torch.ones(len(labels))
    with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
        warnings.filterwarnings("ignore", "Duplicate values are leading")
        for label in labels.cpu().unique():
            rows = (labels.cpu() == label).nonzero()[:, 0]
            if len(rows) < 2:
                continue
            count = min(max(1, int(neighbours * len(rows))), len(rows) - 1)
            lof = LocalOutlierFactor(n_neighbors=count, algorithm="brute").fit(points[rows])
            factors[rows] = -torch.from_numpy(lof.negative_outlier_factor_).float()
    return factors.clamp(max=HIGHEST).to(labels.device)


def outlier_probabilities(factors: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of each row to be an outlier, from the factors of its label.

    A row as dense as its neighbours has a factor of 1. The excess over 1, divided by its root mean
    square over the label, is mapped to a probability by a normal distribution, as in LoOP
    (Kriegel, Kroeger, Schubert and Zimek, CIKM 2009).
    """
    excess = factors - 1
    _, label = labels.unique(return_inverse=True)
    square = torch.zeros(len(labels), device=labels.device).index_add(0, label, excess.square())
    spread = (square[label] / label.bincount()[label]).sqrt()
    return torch.erf(excess / (spread.clamp_min(1e-6) * 2**0.5)).clamp_min(0)
