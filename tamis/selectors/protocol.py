"""What every selector is, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, send
from tamis.model_view import ModelView


class Selector(Protocol):
    """Chooses what to train on. It changes neither the pool nor the model.

    One that must remember something from slot to slot returns it from `state_dict()`, a dict of
    tensors, and takes it back in `load_state_dict(state)`. One that remembers rows by their ids is
    a `Remembers` as well. The class attributes `preferred_window` and `preferred_warm_up` declare
    the view and the warm-up that it works best with.
    """

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k rows of the pool."""
        ...


@runtime_checkable
class Planner(Selector, Protocol):
    """A selector that draws all its chance beforehand, so that a GPU can play the rest back."""

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, ...]:
        """Draw, on the host, the chance that a selection from so many rows needs."""
        ...

    def choose(self, pool: Samples, view: ModelView, k: int, *chance: Tensor) -> Picks:
        """Pick at most k rows of the pool by this chance."""
        ...


@runtime_checkable
class Remembers(Selector, Protocol):
    """A selector that remembers rows by id, and so must follow corrections.

    Ids that it does not know are ignored.
    """

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Take these labels for those of the rows; forget what depends on the old ones."""
        ...

    def remove(self, ids: Tensor) -> None:
        """Forget these rows."""
        ...


def preferred_window(selector: Selector) -> int | Literal["average"]:
    """Return how many of the model's last states this selector looks through, or "average".

    "average" is the running average of the weights. A selector declares it as a class attribute
    of the same name; the default is 1, the model as it is.
    """
    window: int | Literal["average"] = getattr(selector, "preferred_window", 1)
    return window


def preferred_warm_up(selector: Selector) -> int:
    """Return how many first slots pick at random before this selector does, 200 by default."""
    slots: int = getattr(selector, "preferred_warm_up", 200)
    return slots


LEAST_PER_PICK = 4
"""Candidates for each pick, at the least."""
SHORT = 8192
"""Rows in a pool that is cheaply shuffled whole."""


def draw(rows: Tensor, k: int, generator: Generator) -> Tensor:
    """Draw k of these rows at random, each at most once; all of them where k is larger."""
    return rows[draw_rows(len(rows), k, generator, rows.device)]


def draw_rows(count: int, k: int, generator: Generator, device: torch.device) -> Tensor:
    """Draw k of the rows 0 to count - 1 at random, each at most once."""
    return send(plan_rows(count, k, generator), device)


def plan_rows(count: int, k: int, generator: Generator) -> Tensor:
    """Draw k of the rows 0 to count - 1 on the host, in time that k alone sets."""
    if count <= SHORT or 4 * k >= count:
        return torch.randperm(count, generator=generator)[:k]
    rows = torch.empty(0, dtype=torch.long)
    while len(rows) < k:
        rows = first_of_each(torch.cat([rows, torch.randint(count, (k,), generator=generator)]))
    return rows[:k]


def first_of_each(rows: Tensor) -> Tensor:
    """Drop every row that came before, and keep the order."""
    order = rows.argsort(stable=True)
    new = torch.ones_like(rows, dtype=torch.bool)
    new[order[1:]] = rows[order].diff() != 0
    return rows[new]


def lowest_marked(marked: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Take the k marked rows of lowest key, and say which of those taken are marked.

    Keys lie in [0, 1). Where fewer than k rows are marked, others fill up.
    """
    taken = torch.where(marked, keys, 2).topk(min(k, len(marked)), largest=False)
    return taken.indices, taken.values < 2


def all_rows(pool: Samples) -> Tensor:
    """Number the rows of a pool."""
    return torch.arange(len(pool), device=pool.labels.device)


def fit(pool: Samples, rows: Tensor) -> Tensor:
    """Mark the rows that a model can learn from: finite inputs, and a label that is one.

    The trainer's intake lets nothing else in. This is for a selector used alone, and it looks at
    the picks only, so it costs nothing beside the search.
    """
    inputs, labels = pool.inputs[rows], pool.labels[rows]
    finite = (inputs.flatten(1) * 0).sum(dim=1) == 0  # isfinite() takes four times as long
    return finite & (labels >= 0)


def draw_seen(
    pool: Samples, see: Callable[[Tensor, Tensor], Tensor], count: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Draw rows at random, and give those of which something finite is seen, in random order.

    `see` turns inputs and labels into losses, features or the like, one entry a row.
    """
    rows = usable(pool, draw_rows(len(pool), count, generator, pool.labels.device))
    if not len(rows):
        return rows, rows.float()
    seen = see(pool.inputs[rows], pool.labels[rows])
    finite = seen.reshape(len(seen), -1).isfinite().all(dim=1)
    return rows[finite], seen[finite]


def usable(pool: Samples, rows: Tensor) -> Tensor:
    """Return those of these rows that a model can learn from."""
    return rows[fit(pool, rows)]
