"""Calibrated probabilities against a loop over rows, and what fades when."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tamis.selectors.plausible import Agreements, Calibration
from tamis.selectors.plausible.calibration import Fitted
from tamis.selectors.plausible.candidates import Candidates
from tests.support.plausible_loops import (
    FOREVER,
    AgreementLoops,
    CalibrationLoops,
    assert_near,
    double,
    make_candidates,
)


def update(
    rule: Calibration,
    seed: int,
    new: int = 0,
    distinct: float = math.inf,
    agreements: Agreements | None = None,
) -> tuple:
    rows = double(make_candidates(24, 4, 3, seed))
    evidence, is_new = 3 * rows.probabilities.log(), torch.arange(24) < new
    agreements = agreements or Agreements()
    agreements.update(rows, votes_of(rows), rows.probabilities, evidence)
    counted = (evidence, rows.labels, rows.weights(), is_new, distinct, agreements)
    return rows, evidence, rule.update(*counted)


def votes_of(rows: Candidates) -> Tensor:
    """Return votes that often name the class that the predictions name."""
    return rows.probabilities + 0.3 * rows.probabilities.roll(1, dims=0)


@pytest.mark.parametrize("distinct", [40, math.inf])
def test_probabilities_are_those_of_the_loops(distinct: float) -> None:
    """There are early fits, and a later one."""
    rule, agreements = Calibration(half_life=FOREVER, refit_every=20), Agreements()
    loops, agreed = CalibrationLoops(4, rule), AgreementLoops(4, agreements)
    for slot in range(25):
        rows, evidence, found = update(rule, slot, distinct=distinct, agreements=agreements)
        labels, votes = rows.labels.tolist(), votes_of(rows).tolist()
        agreed.update(labels, votes, rows.probabilities.tolist(), evidence.tolist())
        assert_near(found, loops.update(evidence.tolist(), labels, distinct, agreed))
        assert rule.clean_ratio.item() == pytest.approx(loops.ratio, abs=1e-4)
        assert rule.temperature.item() == pytest.approx(loops.temperature, rel=1e-3)
        assert rule.trust.item() == pytest.approx(loops.confidence.value[0], abs=1e-4)


def agreeing(share: float, judges: float = 1.0) -> Agreements:
    """Return the agreements of 100 rows: a share of labels agrees, a share of judges does."""
    rows = make_candidates(100, 4, 3, 0)
    confident = functional.one_hot(torch.arange(100) % 4, 4).float()
    votes = torch.where(
        (torch.arange(100) < 100 * judges)[:, None], confident, confident.roll(1, dims=1)
    )
    labels = (torch.arange(100) + (torch.arange(100) >= 100 * share)) % 4
    rows = rows._replace(probabilities=confident, labels=labels)
    found = Agreements()
    found.update(rows, votes, confident, confident)
    return found


def settled(rule: Calibration, agreements: Agreements, fitted: Fitted) -> Calibration:
    """Return the calibration after a slot whose fit is set by hand."""
    update(rule, 0)
    rule.fitted, rule.refit_every, rule.early_refits = fitted, 10**6, ()
    rows = double(make_candidates(24, 4, 3, 1))
    evidence, new = 3 * rows.probabilities.log(), torch.zeros(24, dtype=torch.bool)
    rule.update(evidence, rows.labels, rows.weights(), new, math.inf, agreements)
    return rule


def test_the_fit_counts_where_both_readings_agree() -> None:
    rule = settled(Calibration(), agreeing(0.7), Fitted(0.7, 2.0))
    assert rule.clean_ratio.item() == pytest.approx(0.7)
    assert rule.temperature.item() == pytest.approx(2.0)


def test_a_fit_that_explains_wrong_labels_away_is_not_believed() -> None:
    rule = settled(Calibration(), agreeing(0.7), Fitted(0.99, 2.0))
    assert rule.clean_ratio.item() == pytest.approx(0.7, abs=0.01)
    assert rule.temperature.item() == pytest.approx(1.0)
    value, low, high = rule.estimate()
    assert low < value < high
    assert high > 0.98


def test_evidence_counts_no_more_than_its_judges_agree() -> None:
    rule = settled(Calibration(), agreeing(0.7, judges=0.2), Fitted(0.7, 1.0))
    assert float(rule.earned()) == pytest.approx(0.2)


def test_an_audit_settles_what_the_readings_leave_open() -> None:
    found = {}
    for right in (72, 97):
        rule = settled(Calibration(), agreeing(0.7), Fitted(0.99, 2.0))
        open_band = rule.estimate()
        rule.audit(torch.arange(100), (torch.arange(100) < right).to(torch.int8))
        settled(rule, agreeing(0.7), Fitted(0.99, 2.0))
        found[right] = rule
        value, low, high = rule.estimate()
        assert value == pytest.approx(right / 100, abs=0.05)
        assert high - low < (open_band.high - open_band.low) / 2
    # Labels that are right after all are plausible again.
    assert found[72].temperature < 1.2 < found[97].temperature


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
    rule.audit(torch.tensor([4, 7]), torch.tensor([1, 0]))
    resumed.load_state_dict(rule.state_dict())
    assert resumed.clean_ratio == rule.clean_ratio
    assert resumed.estimate() == rule.estimate()
    for slot in range(3, 9):
        assert torch.equal(update(rule, slot)[2], update(resumed, slot)[2])
    resumed.load_state_dict({})
    assert resumed.state_dict() == {}


def test_a_ratio_far_above_that_of_rows_seen_first_is_not_believed() -> None:
    """Labels that were learned by heart all agree with the evidence, and the fit believes them."""
    learned = agreeing(0.98)
    assert settled(Calibration(), learned, Fitted(0.99, 2.0)).clean_ratio > 0.95
    learned._at_first = torch.tensor([500.0, 1.0, 0.4])
    rule = settled(Calibration(), learned, Fitted(0.99, 2.0))
    assert rule.clean_ratio.item() == pytest.approx(0.5, abs=0.02)
    assert rule.temperature.item() == pytest.approx(1.0)
    learned._at_first = torch.tensor([500.0, 1.0, 0.9])
    assert settled(Calibration(), learned, Fitted(0.97, 2.0)).temperature.item() == pytest.approx(2)
