"""Logits and targets that the losses are tried on."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

CLASSES = 4


@pytest.fixture
def logits(generator: Generator) -> Tensor:
    return 3 * torch.randn(12, CLASSES, generator=generator, dtype=torch.float64)


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(12) % CLASSES


@pytest.fixture
def shares(generator: Generator) -> Tensor:
    """Soft targets, some of them with a class that has no share at all."""
    shares = torch.rand(12, CLASSES, generator=generator, dtype=torch.float64)
    shares[::3, 1] = 0
    return shares / shares.sum(dim=1, keepdim=True)


@pytest.fixture
def confusion() -> Tensor:
    """Each class is taken for another in its own way."""
    return torch.tensor(
        [
            [0.7, 0.1, 0.1, 0.1],
            [0.0, 0.8, 0.2, 0.0],
            [0.1, 0.3, 0.6, 0.0],
            [0.2, 0.0, 0.0, 0.8],
        ],
        dtype=torch.float64,
    )
