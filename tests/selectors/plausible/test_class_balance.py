"""Scaled votes and predictions against a loop over rows and classes."""

from __future__ import annotations

import torch
from torch import Generator

from tamis.selectors.plausible import ClassBalance
from tests.support.plausible_loops import ClassBalanceLoops, assert_near, double, make_candidates


def update(rule: ClassBalance, seed: int) -> tuple:
    rows = double(make_candidates(12, 4, 3, seed))
    votes = torch.rand(12, 4, generator=Generator().manual_seed(seed), dtype=torch.float64)
    votes[:, 3] = 0  # a class that nobody votes for
    scaled = rule.update(rows.label_shares(), votes, rows.probabilities, rows.weights())
    return rows, votes, scaled


def test_scaled_rows_are_those_of_the_loops() -> None:
    rule = ClassBalance()
    loops = ClassBalanceLoops(4, rule)
    for seed in range(20):
        rows, votes, scaled = update(rule, seed)
        expected = loops.update(
            *(part.tolist() for part in (rows.labels, votes, rows.probabilities))
        )
        for ours, theirs in zip(scaled, expected, strict=True):
            assert_near(ours, theirs)


def test_a_class_that_is_predicted_too_seldom_is_scaled_up() -> None:
    rule, shares = ClassBalance(), torch.full((2,), 0.5)
    probabilities, weights = torch.tensor([[0.9, 0.1]]).repeat(20, 1), torch.full((20,), 1 / 20)
    _, scaled = rule.update(shares, probabilities, probabilities, weights)
    torch.testing.assert_close(scaled, torch.full((20, 2), 0.5))


def test_saved_and_resumed_equals_unbroken() -> None:
    rule, resumed = ClassBalance(), ClassBalance()
    assert rule.state_dict() == {}
    update(rule, 0)
    resumed.load_state_dict(rule.state_dict())
    for ours, theirs in zip(update(rule, 1)[2], update(resumed, 1)[2], strict=True):
        assert torch.equal(ours, theirs)
