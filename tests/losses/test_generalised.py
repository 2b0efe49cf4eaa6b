"""GCE against its definition, and the two losses that it lies between."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tamis.losses import GCE, MAE, cross_entropy


def naive(logits: list[float], label: int, q: float) -> float:
    p = math.exp(logits[label]) / sum(math.exp(z) for z in logits)
    return (1 - p**q) / q


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_it_is_the_power_loss(logits: Tensor, labels: Tensor, shares: Tensor, q: float) -> None:
    wanted = [naive(z, y, q) for z, y in zip(logits.tolist(), labels.tolist(), strict=True)]
    torch.testing.assert_close(GCE(q)(logits, labels), torch.tensor(wanted).double())
    wanted = [
        sum(s * naive(z, c, q) for c, s in enumerate(row))
        for z, row in zip(logits.tolist(), shares.tolist(), strict=True)
    ]
    torch.testing.assert_close(GCE(q)(logits, shares), torch.tensor(wanted).double())


def test_its_ends(logits: Tensor, labels: Tensor) -> None:
    torch.testing.assert_close(GCE(1.0)(logits, labels), MAE()(logits, labels) / 2)
    torch.testing.assert_close(GCE(1e-9)(logits, labels), cross_entropy(logits, labels))


def test_the_default_is_the_papers() -> None:
    assert GCE().power == 0.7


@pytest.mark.parametrize("power", [0.0, -0.5, 1.1])
def test_a_power_out_of_range_is_refused(power: float) -> None:
    with pytest.raises(ValueError, match="power"):
        GCE(power)
