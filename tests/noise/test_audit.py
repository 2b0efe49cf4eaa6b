"""The band of an audit: quantiles of a Beta distribution, and how often it covers the truth."""

from __future__ import annotations

import pytest
import torch

from tamis.noise import audit_band


@pytest.mark.parametrize(("right", "wrong"), [(83, 17), (5, 1), (1, 5), (3000, 12), (50_000, 9000)])
def test_a_tenth_of_the_posterior_is_outside(right: int, wrong: int) -> None:
    value, low, high = audit_band(right, wrong)
    drawn = torch.distributions.Beta(
        torch.tensor(right + 0.5).double(), torch.tensor(wrong + 0.5).double()
    )
    torch.manual_seed(0)
    shares = drawn.sample((200_000,))
    assert (shares < low).float().mean() == pytest.approx(0.05, abs=0.003)
    assert (shares > high).float().mean() == pytest.approx(0.05, abs=0.003)
    assert low < value < high


def test_it_covers_nine_in_ten() -> None:
    generator = torch.Generator().manual_seed(1)
    bands = [audit_band(right, 100 - right) for right in range(101)]
    for ratio in (0.6, 0.83, 0.95):
        right = (torch.rand(2000, 100, generator=generator) < ratio).sum(dim=1)
        covered = [bands[count].low <= ratio <= bands[count].high for count in right.tolist()]
        assert 0.86 < sum(covered) / len(covered) < 0.95


def test_before_the_first_row_and_at_the_ends() -> None:
    assert audit_band(0, 0) == (0.5, 0.0, 1.0)
    assert audit_band(20, 0).high == 1
    assert audit_band(0, 20).low == 0
    with pytest.raises(ValueError, match="at least 0"):
        audit_band(-1, 2)
