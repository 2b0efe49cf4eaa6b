"""Iterative trimmed loss minimisation: Shen and Sanghavi, ICML 2019, algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw, trainable


@dataclass(frozen=True)
class ITLM:
    """Keep the share of the pool with the smallest losses, then pick from it at random.

    `keep` is the user's estimate of the clean ratio, on which the method depends. The authors
    refine the kept set once a round; as in section 3.1 of the OGRS paper, a round is a slot here.
    """

    keep: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"ITLM keeps a share in (0, 1] of the pool, got keep={self.keep}.")

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among the floor(keep * n) of smallest loss, at least one."""
        losses = view.losses(pool.inputs, pool.labels).nan_to_num(nan=torch.inf)
        kept = max(1, math.floor(self.keep * len(pool) + 1e-9))  # 0.29 * 100 is 28.999...
        lowest = losses.topk(kept, largest=False).indices
        return Picks(trainable(pool, draw(lowest, k, generator)))
