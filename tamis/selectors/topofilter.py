"""A topological filter for label noise: Wu, Zheng, Goswami, Metaxas and Chen, NeurIPS 2020."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, draw_scored

SAME_PLACE = 1e-12
"""Squared distance, relative to the squared lengths, that may be a rounding error."""


@dataclass(frozen=True)
class TopoFilter:
    """Keep the largest connected component of each label in the neighbour graph of the features.

    `candidates`: random rows of the pool to judge, at least 4 for each pick. `neighbours`: the
    nearest rows that each row is joined to (the paper's k); both must be near each other if
    `mutual`, else one of them is enough. The zeta-filter then keeps the rows of those components
    whose label is that of at least `share` (zeta) of the nearest `voters` among them.
    `TopoFilter(neighbours=4, mutual=False)` is the graph of the authors' code.
    """

    candidates: int = 512
    neighbours: int = 16
    mutual: bool = True
    voters: int = 32
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.neighbours < 1 or self.voters < 1 or not 0 <= self.share <= 1:
            raise ValueError(
                f"TopoFilter needs neighbours >= 1, voters >= 1, share in [0, 1], got {self}."
            )

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among those kept, all of them if there are fewer."""
        rows, features = draw_scored(
            pool, lambda inputs, _: view.features(inputs), max(self.candidates, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        return Picks(draw(rows[self.filter(features, pool.labels[rows])], k, generator))

    def filter(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the positions of the rows to keep. The first of equal components is the largest,
        so pass the rows in random order. If the zeta-filter keeps nothing, all components are kept.
        """
        if len(labels) < 2:
            return torch.arange(len(labels), device=labels.device)
        apart = squared_distances(features)
        reach = apart.kthvalue(min(self.neighbours, len(labels) - 1), dim=1).values
        near = apart <= reach[:, None]  # ties included
        joined = near & near.T if self.mutual else near | near.T
        inside, sizes = largest_components(joined & (labels[:, None] == labels), labels)

        labels, apart = labels[inside], apart[inside][:, inside]
        voters = apart.topk(min(self.voters, len(inside) - 1), largest=False).indices
        # A component smaller than `voters` would be outvoted by rows outside of it.
        count = (sizes - 1).clamp_max(self.voters)
        is_voter = torch.arange(voters.shape[1], device=labels.device) < count[:, None]
        votes = ((labels[voters] == labels[:, None]) & is_voter).sum(dim=1)
        kept = inside[votes / count.clamp_min(1) >= self.share]
        return kept if len(kept) else inside


def squared_distances(points: Tensor) -> Tensor:
    """Return the squared distances between rows; inf to the row itself, 0 to its duplicates."""
    points = points.double()
    points = points - points.mean(dim=0)
    lengths = points.square().sum(dim=1)
    both = lengths[:, None] + lengths
    apart = both - 2 * points @ points.T
    return apart.masked_fill(apart <= SAME_PLACE * both, 0).fill_diagonal_(torch.inf)


def largest_components(joined: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows in the largest component of each label, and the size of their component."""
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components
    except ModuleNotFoundError:
        raise ImportError("TopoFilter needs scipy: pip install 'tamis[audit]'.") from None

    _, component = connected_components(csr_array(joined.cpu().numpy()), directed=False)
    sizes = np.bincount(component)[component]
    by_size = np.argsort(-sizes, kind="stable")
    _, first = np.unique(labels.cpu().numpy()[by_size], return_index=True)
    inside = np.flatnonzero(np.isin(component, component[by_size[first]]))
    return (
        torch.from_numpy(inside).to(labels.device),
        torch.from_numpy(sizes[inside]).to(labels.device),
    )
