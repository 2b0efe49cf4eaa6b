"""Random draws of rows, and the rows that a model can be trained on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from tamis.data import Samples, to_device

LEAST_PER_PICK = 4
"""Minimum number of candidates for each pick."""
SHORT = 8192
"""Pools of at most this many rows are shuffled completely."""


def draw(rows: Tensor, k: int, generator: Generator) -> Tensor:
    """Return k of these rows at random without replacement; all of them where k is larger."""
    return rows[draw_rows(len(rows), k, generator, rows.device)]


def draw_rows(count: int, k: int, generator: Generator, device: torch.device) -> Tensor:
    """Return k of the rows 0 to count - 1 at random without replacement, on the device."""
    return to_device(plan_rows(count, k, generator), device)


def plan_rows(count: int, k: int, generator: Generator) -> Tensor:
    """Return k of the rows 0 to count - 1 at random, on the host; the time depends on k only."""
    if count <= SHORT or 4 * k >= count:
        return torch.randperm(count, generator=generator)[:k]
    rows = torch.empty(0, dtype=torch.long)
    while len(rows) < k:
        rows = first_of_each(torch.cat([rows, torch.randint(count, (k,), generator=generator)]))
    return rows[:k]


def first_of_each(rows: Tensor) -> Tensor:
    """Return the rows without repetitions, in the order of their first occurrence."""
    ordered, order = rows.sort(stable=True)
    repeated = ordered[1:] == ordered[:-1]
    if rows.device.type == "cpu" and not repeated.any():  # elsewhere it would have to be waited for
        return rows
    new = torch.ones_like(rows, dtype=torch.bool)
    new[order[1:]] = ~repeated
    return rows[new]


def lowest_marked(marked: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k marked rows of lowest key, and a mask of which of those returned are marked.

    Keys lie in [0, 1). Where fewer than k rows are marked, others fill up: the number of rows
    returned then does not depend on the marks, as a CUDA graph needs it.
    """
    taken = torch.where(marked, keys, 2).topk(min(k, len(marked)), largest=False)
    return taken.indices, taken.values < 2


def all_rows(pool: Samples) -> Tensor:
    """Return the row numbers of a pool."""
    return torch.arange(len(pool), device=pool.labels.device)


def is_trainable(pool: Samples, rows: Tensor) -> Tensor:
    """Return a mask of the rows with finite inputs and a valid label.

    The trainer's validator admits no others; this is for a selector used alone. It is meant for
    picks, so that it costs next to nothing.
    """
    return is_finite(pool.inputs[rows]) & (pool.labels[rows] >= 0)


def is_finite(inputs: Tensor) -> Tensor:
    """Return a mask of the rows of finite numbers."""
    if inputs.device.type == "cpu" and inputs.sum().isfinite():  # elsewhere it would wait
        return torch.ones(len(inputs), dtype=torch.bool)
    return (inputs.flatten(1) * 0).sum(dim=1) == 0  # isfinite() takes four times as long


def trainable(pool: Samples, rows: Tensor) -> Tensor:
    """Return those of the rows with finite inputs and a valid label."""
    return rows[is_trainable(pool, rows)]


def draw_scored(
    pool: Samples, score: Callable[[Tensor, Tensor], Tensor], count: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Draw rows at random and return those with finite scores, in random order, and the scores.

    `score` maps inputs and labels to losses, features or the like, one entry for each row.
    """
    rows = trainable(pool, draw_rows(len(pool), count, generator, pool.labels.device))
    if not len(rows):
        return rows, rows.float()
    scores = score(pool.inputs[rows], pool.labels[rows])
    finite = scores.reshape(len(scores), -1).isfinite().all(dim=1)
    return rows[finite], scores[finite]
