"""The ramp against the binary one of the paper, pair by pair, and its symmetry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tamis.losses import Ramp


def binary(lead: float, steepness: float) -> float:
    """With y f(x) = lead, a hinge, less another that takes over at -1."""
    return max(0.0, 1 - steepness * lead) - max(0.0, -1 - steepness * lead)


def naive(logits: list[float], label: int, steepness: float) -> float:
    leads = [logits[label] - z for c, z in enumerate(logits) if c != label]
    return sum(binary(lead, steepness) for lead in leads) / len(leads)


@pytest.mark.parametrize("steepness", [0.3, 1.0, 2.0])
def test_it_is_the_mean_over_pairs(
    logits: Tensor, labels: Tensor, shares: Tensor, steepness: float
) -> None:
    ramp = Ramp(steepness)
    wanted = [naive(z, y, steepness) for z, y in zip(logits.tolist(), labels.tolist(), strict=True)]
    torch.testing.assert_close(ramp(logits, labels), torch.tensor(wanted).double())
    wanted = [
        sum(s * naive(z, c, steepness) for c, s in enumerate(row))
        for z, row in zip(logits.tolist(), shares.tolist(), strict=True)
    ]
    torch.testing.assert_close(ramp(logits, shares), torch.tensor(wanted).double())


def test_with_two_classes_it_is_the_papers() -> None:
    logits = torch.tensor([[0.3, 0.1], [5.0, 0.0], [0.0, 5.0]])
    given = Ramp()(logits, torch.tensor([0, 0, 0]))
    torch.testing.assert_close(given, torch.tensor([0.8, 0.0, 2.0]))


def test_it_is_symmetric(logits: Tensor) -> None:
    over_classes = sum(Ramp()(logits, torch.full((12,), c)) for c in range(4))
    torch.testing.assert_close(over_classes, torch.full((12,), 4.0).double())


def test_the_clipped_hinge_over_the_best_other_class_is_not_symmetric() -> None:
    """The reason to go over pairs: at a tie it sums to 3, with a clear lead to 4."""

    def clipped(logits: list[float], label: int) -> float:
        best = max(z for c, z in enumerate(logits) if c != label)
        return binary(logits[label] - best, 1.0)

    sums = [sum(clipped(z, c) for c in range(3)) for z in ([0.0, 0.0, 0.0], [9.0, 0.0, 0.0])]
    assert sums == [3.0, 4.0]


def test_a_ramp_that_does_not_rise_is_refused() -> None:
    with pytest.raises(ValueError, match="steepness"):
        Ramp(0)
