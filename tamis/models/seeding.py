"""Models whose first weights come from a seed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def start(
    factory: Callable[[tuple[int, ...], int], nn.Module],
    input_shape: tuple[int, ...],
    classes: int,
    seed: int,
) -> nn.Module:
    """Return a model whose first weights come from a seed.

    Torch's layers draw them from its global generator, which is restored.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory(input_shape, classes)
