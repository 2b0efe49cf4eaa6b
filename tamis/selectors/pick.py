"""A selector inside somebody's own training loop."""

from __future__ import annotations

from dataclasses import replace

from torch import Generator, Tensor, nn

from tamis.data import Picks, Samples
from tamis.local import LocalModel
from tamis.selectors.protocol import Selector


def pick(
    selector: Selector,
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    k: int,
    generator: Generator,
    ids: Tensor | None = None,
) -> Picks:
    """Pick at most k rows of a batch to train on, looking at the model as it is now.

    A selector that remembers rows, as `Plausible`, must know them again: give their `ids`. Where
    picks have targets, train on those.

    >>> import torch
    >>> from tamis import Naive, pick
    >>> model, generator = torch.nn.Linear(2, 2), torch.Generator().manual_seed(0)
    >>> picks = pick(Naive(), model, torch.eye(2), torch.tensor([0, 1]), 1, generator)
    >>> len(picks.rows)
    1
    """
    rows = Samples.of(inputs, labels)
    if ids is not None:
        rows = replace(rows, ids=ids)
    return selector.select(rows, LocalModel(model), k, generator).real()
