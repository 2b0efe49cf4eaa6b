"""MAE against its definition, and its symmetry."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tamis.losses import MAE


def naive(logits: list[float], shares: list[float]) -> float:
    total = sum(math.exp(z) for z in logits)
    return sum(abs(s - math.exp(z) / total) for z, s in zip(logits, shares, strict=True))


def test_it_is_the_sum_of_absolute_errors(logits: Tensor, labels: Tensor, shares: Tensor) -> None:
    hot = [[float(c == label) for c in range(4)] for label in labels.tolist()]
    for targets, rows in ((labels, hot), (shares, shares.tolist())):
        wanted = [naive(z, row) for z, row in zip(logits.tolist(), rows, strict=True)]
        torch.testing.assert_close(MAE()(logits, targets), torch.tensor(wanted).double())


def test_it_is_symmetric(logits: Tensor) -> None:
    over_classes = sum(MAE()(logits, torch.full((12,), c)) for c in range(4))
    torch.testing.assert_close(over_classes, torch.full((12,), 2.0 * 3).double())
