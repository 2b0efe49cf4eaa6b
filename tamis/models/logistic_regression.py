"""Logistic regression."""

from __future__ import annotations

import math

from torch import nn


def logistic(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a logistic regression: one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))
