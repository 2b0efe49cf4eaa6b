"""Label smoothing against q' = (1 - amount) q + amount / classes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tamis.losses import LabelSmoothing, cross_entropy


@pytest.mark.parametrize("amount", [0.1, 0.5, 1.0])
def test_it_is_the_entropy_of_smoothed_labels(
    logits: Tensor, labels: Tensor, shares: Tensor, amount: float
) -> None:
    hot = [[float(c == label) for c in range(4)] for label in labels.tolist()]
    for targets, rows in ((labels, hot), (shares, shares.tolist())):
        wanted = []
        for z, row in zip(logits.tolist(), rows, strict=True):
            log_total = math.log(sum(math.exp(one) for one in z))
            wanted.append(
                -sum(
                    ((1 - amount) * share + amount / 4) * (one - log_total)
                    for one, share in zip(z, row, strict=True)
                )
            )
        given = LabelSmoothing(amount)(logits, targets)
        torch.testing.assert_close(given, torch.tensor(wanted).double())


def test_none_is_the_cross_entropy(logits: Tensor, labels: Tensor) -> None:
    assert torch.equal(LabelSmoothing(0)(logits, labels), cross_entropy(logits, labels))


@pytest.mark.parametrize("amount", [-0.1, 1.1])
def test_an_amount_out_of_range_is_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="share"):
        LabelSmoothing(amount)
