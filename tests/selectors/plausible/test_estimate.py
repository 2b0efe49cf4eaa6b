"""The band around the clean ratio, and what an audit makes of it."""

from __future__ import annotations

import math

import pytest
import torch

from tamis.noise.agreement import RATIOS
from tamis.selectors.plausible import Agreements
from tamis.selectors.plausible.estimate import ALLOWANCE, DEVIATIONS, AuditCounts, Readings

NONE = torch.zeros(())


def readings(value: float = 0.7, low: float = 0.6, high: float = 0.95) -> Readings:
    return Readings(*(torch.tensor(x, dtype=torch.float64) for x in (value, low, high)))


def agreeing(labels: float, judges: float, evenness: float) -> Agreements:
    """Return agreements with these shares."""
    rule = Agreements()
    rule._agreeing.update(torch.tensor([labels / 2, labels / 2], dtype=torch.float64))
    rule._judges.update(torch.tensor(judges, dtype=torch.float64))
    rule._misses.update(torch.tensor(1 - labels, dtype=torch.float64))
    rule._confident_misses.update(torch.tensor((1 - labels) * evenness, dtype=torch.float64))
    return rule


def test_scattered_noise_and_certain_judges_leave_a_narrow_band() -> None:
    one = torch.ones((), dtype=torch.float64)
    found = Readings.of(0.7 * one, 0.7, 0.71 * one, agreeing(0.7, 1, 1))
    assert found.estimate(NONE, NONE)[1:] == pytest.approx((0.7 - ALLOWANCE, 0.71 + ALLOWANCE))


def test_few_rows_widen_it_by_their_standard_error() -> None:
    one = torch.ones((), dtype=torch.float64)
    found = Readings.of(0.7 * one, 0.7, 0.7 * one, agreeing(0.7, 1, 1), distinct=84)
    error = DEVIATIONS * math.sqrt(0.7 * 0.3 / 84) + ALLOWANCE
    assert found.estimate(NONE, NONE)[1:] == pytest.approx((0.7 - error, 0.7 + error))


def test_readings_that_differ_doubt_and_judges_that_differ_widen_it() -> None:
    one = torch.ones((), dtype=torch.float64)
    found = Readings.of(0.75 * one, 0.9, 0.75 * one, agreeing(0.7, 0.8, 0.5))
    assert found.estimate(NONE, NONE)[1:] == pytest.approx((0.55 - ALLOWANCE, 0.92 + ALLOWANCE))


def test_the_posterior_is_that_of_a_loop_over_ratios() -> None:
    found = readings().posterior(torch.tensor(30.0), torch.tensor(12.0)).tolist()
    logs = []
    for ratio in RATIOS.tolist():
        width = (0.1 if ratio < 0.7 else 0.25) / DEVIATIONS
        prior = -(((ratio - 0.7) / width) ** 2) / 2
        logs.append(prior + 30 * math.log(ratio) + 12 * math.log(1 - ratio))
    total = sum(math.exp(x - max(logs)) for x in logs)
    assert found == pytest.approx([math.exp(x - max(logs)) / total for x in logs])


@pytest.mark.parametrize("right", [62, 80, 93])
def test_an_audit_tightens_the_band_around_what_it_found(right: int) -> None:
    value, low, high = readings().estimate(torch.tensor(right), torch.tensor(100 - right))
    assert value == pytest.approx(right / 100, abs=0.05)
    assert low < right / 100 < high
    assert high - low < 0.16


def test_what_is_found_again_replaces_what_was_found() -> None:
    counts = AuditCounts()
    counts.audit(torch.tensor([5, 6, 7]), torch.tensor([1, 1, 0]))
    counts.audit(torch.tensor([7, 8]), torch.tensor([1, 0]))
    assert [part.item() for part in counts.counts()] == [3, 1]
    counts.audit(torch.tensor([5, 6, 7, 8]), torch.tensor([-1, -1, -1, -1]))
    assert len(counts) == 0
    assert counts.state_dict() == {}


def test_an_audit_fades_as_its_rows_are_replaced() -> None:
    counts, resumed = AuditCounts(), AuditCounts()
    counts.audit(torch.tensor([5, 6, 7]), torch.tensor([1, 1, 0]))
    counts.fade(torch.tensor(0.0))
    assert [part.item() for part in counts.counts()] == [2, 1]
    counts.fade(torch.tensor(1 / 16))
    resumed.load_state_dict(counts.state_dict())
    assert [part.item() for part in resumed.counts()] == [1, 0.5]


def test_it_reaches_down_to_what_rows_gave_when_they_were_seen_first() -> None:
    rule, one = agreeing(0.98, 1, 1), torch.ones((), dtype=torch.float64)
    assert Readings.of(0.98 * one, 0.98, 0.98 * one, rule).low > 0.9
    rule._at_first = torch.tensor([500, 1, 0.2], dtype=torch.float64)
    found = Readings.of(0.98 * one, 0.98, 0.98 * one, rule)
    ratio = rule.clean_ratio_at_first()
    assert found.low == pytest.approx(max(0.0, ratio.item() - ALLOWANCE))
