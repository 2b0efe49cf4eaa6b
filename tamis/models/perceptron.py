"""Two-layer perceptron."""

from __future__ import annotations

import math

from torch import nn

HIDDEN = 256


def mlp(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a two-layer perceptron with 256 hidden units."""
    size = math.prod(input_shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes)
    )
