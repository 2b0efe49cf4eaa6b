"""A selector inside somebody's own training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Generator, Tensor, nn

from tamis.data import Picks, Samples
from tamis.model_view import Average, ModelView, Window
from tamis.selectors.protocol import Selector


def pick(
    selector: Selector,
    model: nn.Module,
    inputs: Tensor | Mapping[str, Tensor],
    labels: Tensor,
    k: int,
    generator: Generator,
    ids: Tensor | None = None,
    memory: Window | Average | None = None,
) -> Picks:
    """Pick at most k rows of a batch to train on, looking at the model as it is now.

    A selector that remembers rows, as `Plausible`, must know them again: give their `ids`. Where
    picks have targets, train on those. With a `memory` that remembers the model after each step,
    the selector looks through that instead. Inputs that the model takes by name, as token ids and
    their mask, are a dict of tensors; a selector then works in feature space, not on the inputs.

    >>> import torch
    >>> from tamis import Naive, pick
    >>> model, generator = torch.nn.Linear(2, 2), torch.Generator().manual_seed(0)
    >>> picks = pick(Naive(), model, torch.eye(2), torch.tensor([0, 1]), 1, generator)
    >>> len(picks.rows)
    1
    """
    columns = None
    if isinstance(inputs, Mapping):
        columns, inputs = inputs, torch.arange(len(labels), device=labels.device)[:, None]
    rows = Samples.of(inputs, labels)
    if ids is not None:
        rows = replace(rows, ids=ids)
    return selector.select(rows, ModelView(model, memory, columns=columns), k, generator).real()
