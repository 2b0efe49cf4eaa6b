"""Calibrated probabilities against a loop over rows, and what fades when."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tamis.selectors.plausible import Calibration
from tests.support.plausible_loops import (
    FOREVER,
    CalibrationLoops,
    assert_near,
    double,
    make_candidates,
)


def update(rule: Calibration, seed: int, new: int = 0, distinct: float = math.inf) -> tuple:
    rows = double(make_candidates(24, 4, 3, seed))
    evidence, is_new = 3 * rows.probabilities.log(), torch.arange(24) < new
    return rows, evidence, rule.update(evidence, rows.labels, rows.weights(), is_new, distinct)


@pytest.mark.parametrize("distinct", [40, math.inf])
def test_probabilities_are_those_of_the_loops(distinct: float) -> None:
    """There are early fits, and a later one."""
    rule = Calibration(half_life=FOREVER, refit_every=20)
    loops = CalibrationLoops(4, rule)
    for slot in range(25):
        rows, evidence, found = update(rule, slot, distinct=distinct)
        assert_near(found, loops.update(evidence.tolist(), rows.labels.tolist(), distinct))
        assert rule.clean_ratio == pytest.approx(loops.ratio, abs=1e-4)
        assert rule.temperature == pytest.approx(loops.temperature, rel=1e-3)
        assert rule.trust.item() == pytest.approx(loops.confidence.value[0], abs=1e-4)


@pytest.mark.parametrize("new", [0, 6])
def test_counts_fade_with_rows_and_with_the_turnover_of_the_pool(new: int) -> None:
    rule, weight = Calibration(half_life=100, turnover=0.5), 0.0
    for slot in range(10):
        update(rule, slot, new, distinct=48)
        faded = 0.5 ** (24 / 100 + new / (0.5 * 48))
        weight = weight * faded + new + (24 - new) / 32
    counted: Tensor = rule.state_dict()["fit.rows"].sum()
    assert counted.item() == pytest.approx(weight)


def test_nothing_is_trusted_before_the_first_slot() -> None:
    rule = Calibration()
    assert not rule.started
    assert rule.trust == 0


def test_saved_and_resumed_equals_unbroken() -> None:
    rule, resumed = Calibration(), Calibration()
    assert rule.state_dict() == {}
    for slot in range(3):
        update(rule, slot)
    resumed.load_state_dict(rule.state_dict())
    assert resumed.clean_ratio == rule.clean_ratio
    for slot in range(3, 9):
        assert torch.equal(update(rule, slot)[2], update(resumed, slot)[2])
    resumed.load_state_dict({})
    assert resumed.state_dict() == {}
