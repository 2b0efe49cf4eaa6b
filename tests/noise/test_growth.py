"""Trackers and pairs that grow: counts are those of a tracker that knew the classes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from tamis.noise import Alarm, Tracker
from tamis.noise.agreement import BINS, HIGHEST_LOGIT, bin_of, move_bins, rise_in_bins
from tamis.noise.pairs import DensePairs, RecentPairs
from tests.noise.test_pairs import make_rows
from tests.support.identical import identical


def rows_of(count: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    probabilities = (3 * torch.randn(count, classes, generator=generator)).softmax(dim=1)
    labels = probabilities.multinomial(1, generator=generator)[:, 0]
    wrong = torch.rand(count, generator=generator) < 0.3
    other = torch.randint(classes, (count,), generator=generator)
    return probabilities, torch.where(wrong, other, labels)


def dense_of(counts: Tensor) -> Tensor:
    return counts.to_dense() if counts.is_sparse else counts


@pytest.mark.parametrize("classes", [2, 10, 10_000])
def test_bins_are_of_equal_width_in_the_logit(classes: int) -> None:
    """The first and the last bin take all that is beyond."""
    each = torch.linspace(0, 1, 501, dtype=torch.float64).clamp(1e-9, 1 - 1e-9).tolist()
    expected = [
        (math.log(x / (1 - x)) + math.log(classes - 1)) * BINS / HIGHEST_LOGIT for x in each
    ]
    found = bin_of(torch.tensor(each, dtype=torch.float64), classes)
    assert found.tolist() == [min(max(math.floor(x), 0), BINS - 1) for x in expected]
    assert bin_of(torch.tensor(each), classes).diff().min() >= 0  # in single precision


def test_bins_rise_as_the_odds_of_a_guess_fall() -> None:
    """Moved counts have the mean bin, to a bin, of the confidences counted with more classes."""
    confidence = torch.linspace(0.5, 0.999, 400, dtype=torch.float64)
    before = torch.zeros(BINS, dtype=torch.float64)
    for at in bin_of(confidence, 3).tolist():
        before[at] += 1
    rise = rise_in_bins(3, 9)
    assert rise == pytest.approx(math.log(8 / 2) / HIGHEST_LOGIT * BINS)
    after = move_bins(before, rise)
    assert after.sum() == pytest.approx(400)
    bins = torch.arange(BINS).double()
    known = bin_of(confidence, 9).double().mean().item()
    assert (after @ bins).item() / 400 == pytest.approx(known, abs=0.5)
    naive = torch.zeros(BINS, dtype=torch.float64)
    for at, count in enumerate(before.tolist()):
        low = math.floor(at + rise)
        for place, share in ((low, 1 - (at + rise - low)), (low + 1, at + rise - low)):
            naive[min(place, BINS - 1)] += share * count
    torch.testing.assert_close(after, naive)


@pytest.mark.parametrize("kind", [Tracker, Alarm])
@pytest.mark.parametrize("classes", [(3, 5), (3, 140), (130, 140)])
def test_a_grown_tracker_goes_on(kind: type[Tracker], classes: tuple[int, int]) -> None:
    few, many = classes
    tracker = kind(few, 300.0)
    for seed in range(40):
        tracker.update(*rows_of(20, few, seed))
    by_class, pairs, estimate = tracker.by_class(), tracker.pairs(), tracker.estimate()
    tracker.grow(many)
    tracker.grow(few)
    assert tracker.classes == many
    assert tracker.by_class()[few:].isnan().all()
    assert tracker.pairs().shape == (many, many)
    found, before = (
        part.to_dense() if part.is_sparse else part for part in (tracker.pairs(), pairs)
    )
    torch.testing.assert_close(found[:few, :few], before)
    assert found.sum() == pytest.approx(before.sum().item())
    assert tracker.estimate().value == pytest.approx(estimate.value, abs=0.1)
    torch.testing.assert_close(
        tracker.by_class()[:few], by_class, atol=0.15, rtol=0, equal_nan=True
    )
    again = kind(many, 300.0)
    again.load_state_dict(tracker.state_dict())
    for seed in range(40, 60):
        for one in (tracker, again):
            one.update(*rows_of(20, many, seed))
    assert identical(again.state_dict(), tracker.state_dict())
    assert tracker.confusion().shape == (many, many)


@pytest.mark.parametrize("classes", [9, 129])
def test_pairs_grow_to_either_form(classes: int) -> None:
    dense, known = DensePairs(7), RecentPairs(classes)
    for seed in range(6):
        dense.count(make_rows(30, seed), torch.tensor(0.9))
        known.count(make_rows(30, seed), torch.tensor(0.9))
    grown, weights = dense.grow(classes, 1000.0, 0.0), torch.rand(BINS).double()
    torch.testing.assert_close(dense_of(grown.counts()), known.counts().to_dense())
    found = dense_of(grown.counts(weights))
    torch.testing.assert_close(found, known.counts(weights).to_dense())


def test_recent_pairs_keep_their_classes() -> None:
    few, many = RecentPairs(7), RecentPairs(11)
    for seed in range(4):
        few.count(make_rows(30, seed), torch.tensor(0.9))
        many.count(make_rows(30, seed), torch.tensor(0.9))
    assert identical(few.grow(11, 1000.0, 0.4).state_dict(), many.state_dict())


def test_an_alarm_in_suspicion_grows() -> None:
    alarm, generator = Alarm(3, 100.0), Generator().manual_seed(0)

    def update(classes: int, wrong: float) -> None:
        labels = torch.randint(classes, (10,), generator=generator)
        probabilities = torch.full((10, classes), 0.02 / (classes - 1))
        probabilities[torch.arange(10), labels] = 0.98
        flip = torch.rand(10, generator=generator) < wrong
        alarm.update(probabilities, torch.where(flip, (labels + 1) % classes, labels))

    suspicious = 0
    for slot in range(100):
        update(3, 0.1 if slot < 60 else 0.7)
        if "since.rows" in alarm.state_dict():
            suspicious = slot
            break
    assert suspicious > 60
    alarm.grow(4)
    for _ in range(30):
        update(4, 0.7)
    assert alarm.pop_change() is not None
