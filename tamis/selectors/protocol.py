"""What every selector is, and what they share."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.local import LocalModel


class Selector(Protocol):
    """Chooses what to train on. It changes nothing: not the pool, not the model, not itself."""

    def select(self, pool: Samples, local: LocalModel, k: int, generator: Generator) -> Picks:
        """Pick at most k rows of the pool."""
        ...


def draw(rows: Tensor, k: int, generator: Generator) -> Tensor:
    """Draw k of these rows at random, each at most once; all of them where k is larger."""
    order = torch.randperm(len(rows), generator=generator)[:k]
    return rows[order.to(rows.device)]


def all_rows(pool: Samples) -> Tensor:
    """Number the rows of a pool."""
    return torch.arange(len(pool), device=pool.labels.device)


def usable(pool: Samples, rows: Tensor) -> Tensor:
    """Of these rows, those a model can learn from: finite inputs, and a label that is one.

    The trainer's intake lets nothing else in. This is for a selector used alone, and it looks at
    the picks only, so it costs nothing beside the search.
    """
    finite = pool.inputs[rows].flatten(1).isfinite().all(dim=1)
    return rows[finite & (pool.labels[rows] >= 0)]
