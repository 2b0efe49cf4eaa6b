"""The regrets and the bound against plain loops; the fit against powers that are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from tamis.lab.regret_measures import (
    Constants,
    fit_exponent,
    lagrangian_regret,
    local_regret,
    multiplier_bound,
)

STEPS = torch.tensor([1, 2, 4, 8, 16, 32, 64])


@pytest.fixture
def gradients(generator: Generator) -> Tensor:
    return torch.randn(5, 7, 3, generator=generator, dtype=torch.float64)


def made_up(power: float, seed: int, repeats: int = 6, chains: int = 30) -> Tensor:
    """Regrets that grow with a known power, off by factors of their own at every step."""
    noise = torch.randn(repeats, chains, len(STEPS), generator=Generator().manual_seed(seed))
    return 3 * STEPS**power * (0.5 * noise).exp()


def test_regrets_are_those_of_a_loop(gradients: Tensor) -> None:
    for chain, local, lagrangian in zip(
        gradients, local_regret(gradients), lagrangian_regret(gradients), strict=True
    ):
        squares, total = 0.0, [0.0] * 3
        for gradient in chain.tolist():
            squares += sum(part**2 for part in gradient)
            total = [so_far + part for so_far, part in zip(total, gradient, strict=True)]
        assert local.item() == pytest.approx(squares)
        assert lagrangian.item() == pytest.approx(math.hypot(*total))


def test_constants_are_those_of_a_loop(generator: Generator) -> None:
    points, gradients = torch.randn(2, 20, 4, generator=generator, dtype=torch.float64)
    uses = torch.randint(9, (3, 20), generator=generator)
    constants = Constants.of(points, gradients, uses, max_uses=5)
    apart = [math.dist(a, b) for a in points.tolist() for b in points.tolist()]
    assert constants.diameter == pytest.approx(max(apart))
    assert constants.steepest == pytest.approx(
        max(math.hypot(*gradient) for gradient in gradients.tolist())
    )
    assert constants.excess.tolist() == [max(abs(p - 5) for p in row) for row in uses.tolist()]
    assert constants.margin.tolist() == [5 - min(row) for row in uses.tolist()]


@pytest.mark.parametrize("span", [1, 4])
@pytest.mark.parametrize("gamma", [0.01, 0.25, 2.0])
def test_the_bound_is_lemma_2(gamma: float, span: int) -> None:
    big_g, f1, d, epsilon, alpha = 6.0, 1.5, 9.0, 2.0, 0.7
    constants = Constants(torch.tensor([big_g]), f1, d, torch.tensor([epsilon]))
    log = max(0.0, math.log(32 * big_g**2 * gamma**2 / epsilon**2))
    expected = (
        gamma**2 * big_g**2 / epsilon
        + 4 * gamma * f1 * d / epsilon
        + d**2 / (2 * alpha * epsilon)
        + span * big_g * gamma
        + span * 8 * big_g**2 * gamma**2 / epsilon * log
    )
    assert multiplier_bound(constants, alpha, gamma, span).item() == pytest.approx(expected)


@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_there_is_no_bound_without_slaters_condition(margin: float) -> None:
    constants = Constants(torch.tensor([3.0]), 1.0, 1.0, torch.tensor([margin]))
    assert multiplier_bound(constants, 1.0, 0.25).item() == math.inf


def test_the_bound_does_not_vanish_as_the_price_step_does() -> None:
    """Why the theorem shows O(M) and no less: D^2 / (2 alpha epsilon) stays."""
    constants = Constants(torch.tensor([3.0]), 1.0, 4.0, torch.tensor([2.0]))
    assert multiplier_bound(constants, 1.0, 1e-9).item() == pytest.approx(4**2 / (2 * 1 * 2))


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_fit_finds_the_power(power: float) -> None:
    exact = fit_exponent(STEPS, (3 * STEPS**power).expand(2, 4, -1), Generator().manual_seed(0))
    assert exact == pytest.approx((power,) * 3, abs=1e-6)
    noisy = fit_exponent(STEPS, made_up(power, seed=1), Generator().manual_seed(0))
    assert noisy.low < noisy.value < noisy.high
    assert noisy.value == pytest.approx(power, abs=0.05)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_interval_covers(power: float) -> None:
    fits = [
        fit_exponent(STEPS, made_up(power, seed), Generator().manual_seed(seed), draws=300)
        for seed in range(60)
    ]
    covered = sum(fit.low <= power <= fit.high for fit in fits)
    assert covered >= 51  # of 60; 57 are expected
    assert max(fit.high - fit.low for fit in fits) < 0.12


def test_repeats_that_differ_widen_the_interval() -> None:
    """Chains of one repeat share a pool: many of them are no substitute for repeats."""
    powers = torch.tensor([0.3, 0.5, 0.7, 0.9])[:, None, None]
    fit = fit_exponent(STEPS, (STEPS**powers).expand(-1, 500, -1), Generator().manual_seed(0))
    assert fit.high - fit.low > 0.2


def test_the_same_generator_gives_the_same_interval() -> None:
    one, two = (fit_exponent(STEPS, made_up(0.5, 0), Generator().manual_seed(3)) for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("steps", "regrets", "text"),
    [(STEPS, torch.zeros(1, 2, 7), "no logarithm"), (STEPS[:1], torch.ones(1, 2, 1), "two")],
)
def test_what_has_no_power_is_refused(steps: Tensor, regrets: Tensor, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fit_exponent(steps, regrets, Generator().manual_seed(0))
