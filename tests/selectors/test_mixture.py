"""The split of losses against expectation and maximisation in plain floats."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import Mixture
from tamis.selectors.mixture import low_probabilities

LOCAL = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0])  # inputs are losses


def pool_of(losses: Tensor) -> Samples:
    return Samples.of(losses[:, None], torch.zeros(len(losses), dtype=torch.long))


def two_heaps(seed: int, rows: int = 80) -> Tensor:
    """Losses with a gap, so that there is but one way to cut them into clusters to start from."""
    generator = Generator().manual_seed(seed)
    low = 0.2 + 0.1 * torch.randn(rows // 2, generator=generator, dtype=torch.float64)
    high = 1.4 + 0.2 * torch.randn(rows // 2, generator=generator, dtype=torch.float64)
    return torch.cat([low.abs(), high.clamp_min(0.9)])


def overlapping_heaps(seed: int) -> Tensor:
    generator = Generator().manual_seed(seed)
    low = 0.3 + 0.2 * torch.randn(40, generator=generator, dtype=torch.float64)
    high = 1.1 + 0.3 * torch.randn(40, generator=generator, dtype=torch.float64)
    return torch.cat([low, high]).abs()


def split(losses: list[float]) -> list[float]:
    """Two clusters, ten steps of EM at most from them, as the authors ask scikit-learn for."""
    lowest, highest = min(losses), max(losses)
    points = [(loss - lowest) / (highest - lowest) for loss in losses]
    centres = [0.0, 1.0]
    for _ in range(100):
        near = [abs(x - centres[0]) < abs(x - centres[1]) for x in points]
        centres = [
            sum(x for x, low in zip(points, near, strict=True) if low is side) / near.count(side)
            for side in (True, False)
        ]
    shares = [[1.0, 0.0] if low else [0.0, 1.0] for low in near]
    gaussians, level = maximise(points, shares), -math.inf
    for _ in range(10):
        before = level
        shares, level = expect(points, gaussians)
        gaussians = maximise(points, shares)
        if abs(level - before) < 1e-2:
            break
    lower = min((0, 1), key=lambda side: gaussians[side][1])
    return [share[lower] for share in expect(points, gaussians)[0]]


def maximise(points: list[float], shares: list[list[float]]) -> list[tuple[float, float, float]]:
    gaussians = []
    for side in (0, 1):
        size = sum(share[side] for share in shares)
        mean = sum(s[side] * x for s, x in zip(shares, points, strict=True)) / size
        spread = sum(s[side] * (x - mean) ** 2 for s, x in zip(shares, points, strict=True)) / size
        gaussians.append((size / len(points), mean, spread + 5e-4))
    return gaussians


def expect(
    points: list[float], gaussians: list[tuple[float, float, float]]
) -> tuple[list[list[float]], float]:
    shares, level = [], 0.0
    for x in points:
        heights = [
            weight * math.exp(-((x - mean) ** 2) / (2 * spread)) / math.sqrt(2 * math.pi * spread)
            for weight, mean, spread in gaussians
        ]
        shares.append([height / sum(heights) for height in heights])
        level += math.log(sum(heights)) / len(points)
    return shares, level


def select(mixture: Mixture, losses: Tensor, k: int = 1000, seed: int = 0) -> list[int]:
    picks = mixture.select(pool_of(losses), LOCAL, k, Generator().manual_seed(seed))
    return picks.rows.tolist()


STABLE = (0, 2, 3, 4, 5, 7, 8)  # cut into the same clusters from every start


@pytest.mark.parametrize(
    "losses",
    [*(two_heaps(case) for case in range(20)), *(overlapping_heaps(case) for case in STABLE)],
)
def test_probabilities_are_those_of_em(losses: Tensor) -> None:
    for seed in range(3):
        assert low_probabilities(losses, seed).tolist() == pytest.approx(
            split(losses.tolist()), abs=1e-6
        )


@pytest.mark.parametrize("case", range(20))
@pytest.mark.parametrize("threshold", [1e-6, 0.5, 0.99])
def test_the_rows_that_pass_are_over_the_threshold(case: int, threshold: float) -> None:
    losses = two_heaps(case)
    expected = {row for row, p in enumerate(split(losses.tolist())) if p > threshold}
    assert 0 < len(expected) < len(losses)
    assert set(select(Mixture(threshold), losses)) == expected


def test_at_most_k_and_each_can_be_picked() -> None:
    losses = two_heaps(0)
    passing = set(select(Mixture(), losses))
    picks = [select(Mixture(), losses, 6, seed) for seed in range(100)]
    assert all(len(rows) == 6 for rows in picks)
    assert {row for rows in picks for row in rows} == passing


def test_it_is_fitted_to_a_draw() -> None:
    losses = two_heaps(1, rows=400)
    drawn = torch.randperm(400, generator=Generator().manual_seed(5))[:64]
    low = split(losses[drawn].tolist())
    expected = {int(drawn[row]) for row, p in enumerate(low) if p > 0.5}
    picked = select(Mixture(batch=64), losses, 16, seed=5)
    assert len(picked) == 16
    assert set(picked) <= expected


def test_where_none_is_over_the_threshold_the_nearest_are_picked() -> None:
    losses = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], dtype=torch.float64)
    low = split(losses.tolist())
    threshold = 1 - 1e-12
    assert max(low) < threshold
    best = sorted(range(8), key=lambda row: -low[row])[:2]
    assert set(select(Mixture(threshold), losses, 2)) == set(best)


def test_ties_are_broken_at_random() -> None:
    picked = [select(Mixture(), torch.ones(30), 5, seed) for seed in range(60)]
    assert all(len(rows) == 5 for rows in picked)
    assert {row for rows in picked for row in rows} == set(range(30))


@pytest.mark.parametrize("losses", [[1.0], [1.0, 2.0], [0.0, 0.0, 5.0], [1.0, 1.0 + 1e-7]])
def test_few_rows(losses: list[float]) -> None:
    rows = select(Mixture(), torch.tensor(losses))
    assert losses.index(min(losses)) in rows
    assert losses.index(max(losses)) not in rows or len(losses) == 1 or len(set(losses)) == 1


def test_losses_that_are_not_finite_are_left_out() -> None:
    losses = torch.cat([two_heaps(2), torch.tensor([1e300], dtype=torch.float64)])
    view = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0] * 1e10)
    picks = Mixture().select(pool_of(losses), view, 1000, Generator().manual_seed(0))
    assert set(picks.rows.tolist()) == set(select(Mixture(), losses[:-1]))
    assert select(Mixture(), torch.full((9,), torch.nan)) == []


def test_randomness_comes_from_the_generator_only() -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for seed in range(20):
        losses = torch.rand(50, generator=Generator().manual_seed(seed))
        assert select(Mixture(), losses, 8, seed) == select(Mixture(), losses, 8, seed)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.parametrize("threshold", [-0.1, 1.0])
def test_the_threshold_is_checked(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Mixture(threshold)
