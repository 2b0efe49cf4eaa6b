"""SCE against its two halves, written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tamis.losses import SCE


def naive(sce: SCE, logits: list[float], shares: list[float]) -> float:
    total = sum(math.exp(z) for z in logits)
    entropy = reverse = 0.0
    for z, share in zip(logits, shares, strict=True):
        p = math.exp(z) / total
        entropy -= share * math.log(p)
        reverse -= p * max(math.log(share) if share > 0 else sce.log_zero, sce.log_zero)
    return sce.entropy_weight * entropy + sce.reverse_weight * reverse


@pytest.mark.parametrize("sce", [SCE(), SCE(6.0, 0.1), SCE(0.0, 1.0, -2.0)])
def test_it_is_both_entropies(logits: Tensor, labels: Tensor, shares: Tensor, sce: SCE) -> None:
    hot = [[float(c == label) for c in range(4)] for label in labels.tolist()]
    for targets, rows in ((labels, hot), (shares, shares.tolist())):
        wanted = [naive(sce, z, row) for z, row in zip(logits.tolist(), rows, strict=True)]
        torch.testing.assert_close(sce(logits, targets), torch.tensor(wanted).double())


def test_its_reverse_part_is_symmetric(logits: Tensor) -> None:
    reverse = SCE(entropy_weight=0, log_zero=-4)
    over_classes = sum(reverse(logits, torch.full((12,), c)) for c in range(4))
    torch.testing.assert_close(over_classes, torch.full((12,), 4.0 * 3).double())


@pytest.mark.parametrize("settings", [(-1, 1, -4), (1, -1, -4), (1, 1, 0)])
def test_settings_out_of_range_are_refused(settings: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="SCE needs"):
        SCE(*settings)
