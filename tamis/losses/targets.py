"""Targets of a loss: the number of a row's class, or shares over classes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Criterion = Callable[[Tensor, Tensor], Tensor]
"""Logits and targets (class numbers, or rows of shares over classes) to one loss per row."""

NO_LABEL_IS_IGNORED = -(2**40)
"""Torch gives label -100 a loss of zero, so that a row with no label would look perfectly clean.
With this number to ignore, -100 is out of range, as any label that the model has no output for."""


def at_target(values: Tensor, targets: Tensor) -> Tensor:
    """Return each row's value at its class; for shares, the weighted mean over classes."""
    if targets.is_floating_point():
        return (values * as_shares(targets, values)).sum(dim=1)
    return -functional.nll_loss(values, targets, reduction="none", ignore_index=NO_LABEL_IS_IGNORED)


def as_shares(targets: Tensor, logits: Tensor) -> Tensor:
    """Return targets as rows of shares over classes, all on one class where it is a number."""
    soft = targets.is_floating_point()
    wanted = logits.shape if soft else logits.shape[:1]
    if targets.shape != wanted:
        raise TypeError(
            f"Logits of shape {tuple(logits.shape)} need class numbers, one a row, or shares over"
            f" classes of that shape, got {targets.dtype} of shape {tuple(targets.shape)}."
        )
    return targets if soft else torch.zeros_like(logits).scatter(1, targets[:, None], 1)


def at_least_single(logits: Tensor) -> Tensor:
    """Return logits in single precision at least, for sums over classes and their logarithms."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
