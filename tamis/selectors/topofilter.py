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
"""Squared distance, over the squared lengths, that rounding in double precision may leave."""


@dataclass(frozen=True)
class TopoFilter:
    """Keep, of each label, the largest piece of the neighbour graph in feature space.

    `candidates`: random rows of the pool to look at, at least 4 a pick. `neighbours`: rows that
    each row is joined to (the paper's k), if the nearness is `mutual`; else either way is enough.
    The zeta-filter then keeps rows of those pieces that have their own label on at least `share`
    (zeta) of the nearest `voters` among them. `TopoFilter(neighbours=4, mutual=False)` is the
    graph of the authors' code.
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
        """Pick k rows at random among those kept, fewer where fewer are."""
        rows, features = draw_scored(
            pool, lambda inputs, _: view.features(inputs), max(self.candidates, 4 * k), generator
        )
        if not len(rows):
            return Picks(rows)
        return Picks(draw(rows[self.sift(features, pool.labels[rows])], k, generator))

    def sift(self, features: Tensor, labels: Tensor) -> Tensor:
        """Give the positions of the rows to believe. Of equals the first wins: hand them shuffled.

        Where the zeta-filter leaves nothing, the pieces stand as they are.
        """
        if len(labels) < 2:
            return torch.arange(len(labels), device=labels.device)
        apart = squared_distances(features)
        reach = apart.kthvalue(min(self.neighbours, len(labels) - 1), dim=1).values
        near = apart <= reach[:, None]  # as many more as are just as near
        joined = near & near.T if self.mutual else near | near.T
        inside, sizes = largest_pieces(joined & (labels[:, None] == labels), labels)

        labels, apart = labels[inside], apart[inside][:, inside]
        voters = apart.topk(min(self.voters, len(inside) - 1), largest=False).indices
        # A piece smaller than the electorate would be outvoted by whatever lies beyond it.
        asked = (sizes - 1).clamp_max(self.voters)
        heard = torch.arange(voters.shape[1], device=labels.device) < asked[:, None]
        votes = ((labels[voters] == labels[:, None]) & heard).sum(dim=1)
        believed = inside[votes / asked.clamp_min(1) >= self.share]
        return believed if len(believed) else inside


def squared_distances(points: Tensor) -> Tensor:
    """Squared distance of each row to every other; infinite to itself, 0 to its duplicates."""
    points = points.double()
    points = points - points.mean(dim=0)
    lengths = points.square().sum(dim=1)
    both = lengths[:, None] + lengths
    apart = both - 2 * points @ points.T
    return apart.masked_fill(apart <= SAME_PLACE * both, 0).fill_diagonal_(torch.inf)


def largest_pieces(joined: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Find the rows in the largest piece of each label, and the size of the piece of each."""
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components
    except ModuleNotFoundError:
        raise ImportError("TopoFilter needs scipy: pip install 'tamis[audit]'.") from None

    _, piece = connected_components(csr_array(joined.cpu().numpy()), directed=False)
    sizes = np.bincount(piece)[piece]
    by_size = np.argsort(-sizes, kind="stable")
    _, first = np.unique(labels.cpu().numpy()[by_size], return_index=True)
    inside = np.flatnonzero(np.isin(piece, piece[by_size[first]]))
    return (
        torch.from_numpy(inside).to(labels.device),
        torch.from_numpy(sizes[inside]).to(labels.device),
    )
