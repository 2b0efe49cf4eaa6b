"""Pairs of many classes against those of few, and against counts written naively."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from torch import Generator, Tensor

from tamis.noise import Alarm, Observed, Tracker, pairs
from tamis.noise.agreement import BINS, observe
from tamis.noise.alarm import remapping
from tamis.noise.pairs import DensePairs, RecentPairs, largest_columns, off_diagonal, to_shares
from tests.noise.test_alarm import BEFORE, CHANGES, changes_in

CLASSES = 7


def make_rows(count: int, seed: int, classes: int = CLASSES) -> Observed:
    generator = Generator().manual_seed(seed)
    predicted, labels = torch.randint(classes, (2, count), generator=generator)
    known = (torch.rand(count, generator=generator) < 0.9).double()
    bins = torch.randint(BINS, (count,), generator=generator)
    return Observed(known, known.sum(), known * (predicted == labels), predicted, labels, bins)


def follow(counts: DensePairs | RecentPairs) -> None:
    for seed in range(12):
        counts.count(make_rows(30, seed), torch.tensor(0.9))
        counts.move(0.4, 1, 2, 3, seed)
        counts.move(5.0, 2, 2, 1, seed)


def test_counts_are_sums_of_faded_weights() -> None:
    recent, naive = RecentPairs(CLASSES), defaultdict(float)
    for seed in range(5):
        rows = make_rows(40, seed)
        recent.count(rows, torch.tensor(0.8))
        naive = defaultdict(float, {key: 0.8 * count for key, count in naive.items()})
        for weight, predicted, label in zip(rows.known, rows.predicted, rows.labels, strict=True):
            naive[int(predicted), int(label)] += weight.item()
    found = recent.counts().to_dense()
    for predicted in range(CLASSES):
        for label in range(CLASSES):
            assert found[predicted, label].item() == pytest.approx(naive[predicted, label])


def test_recent_pairs_are_dense_ones() -> None:
    dense, recent, weights = DensePairs(CLASSES), RecentPairs(CLASSES), torch.rand(BINS).double()
    follow(dense)
    follow(recent)
    near = torch.testing.assert_close
    near(recent.counts().to_dense(), dense.counts())
    near(recent.counts(weights).to_dense(), dense.counts(weights))
    newer = DensePairs(CLASSES), RecentPairs(CLASSES)
    for counts in newer:
        counts.count(make_rows(200, 11), torch.tensor(1.0))
    left = recent.minus(newer[1]).counts()
    near(left.to_dense(), dense.minus(newer[0]).counts())
    for of in (off_diagonal, lambda counts: to_shares(counts, 1e-3)):
        near(of(recent.counts()).to_dense(), of(dense.counts()))
    assert torch.equal(largest_columns(recent.counts()), largest_columns(dense.counts()))
    late = make_rows(500, 99)
    for counts in newer:
        counts.count(late, torch.tensor(1.0))
    expected = remapping(dense.counts(), newer[0].counts() - dense.counts())
    found = remapping(recent.counts(), newer[1].counts() - recent.counts())
    assert found == pytest.approx(expected)


def test_the_oldest_rows_are_forgotten() -> None:
    recent, last = RecentPairs(CLASSES, most=50), RecentPairs(CLASSES)
    for seed in range(4):
        recent.count(make_rows(30, seed), torch.tensor(0.5))
    parts = make_rows(30, 2), make_rows(30, 3)
    last.count(
        Observed(*(column[10:] if column.dim() else column for column in parts[0])),
        torch.tensor(0.5),
    )
    last.count(parts[1], torch.tensor(0.5))
    torch.testing.assert_close(recent.counts().to_dense(), last.counts().to_dense())
    recent.count(make_rows(200, 4), torch.tensor(0.5))
    assert len(recent.state_dict()["pair_keys"]) == 50


def test_saved_and_resumed_equals_unbroken() -> None:
    one, two, short = (RecentPairs(CLASSES, most) for most in (100, 100, 20))
    follow(one)
    two.load_state_dict(one.state_dict())
    short.load_state_dict(one.state_dict())
    assert torch.equal(short.state_dict()["pair_keys"], one.state_dict()["pair_keys"][-20:])
    for counts in (one, two):
        counts.count(make_rows(70, 50), torch.tensor(0.9))
    assert torch.equal(one.counts().to_dense(), two.counts().to_dense())


@pytest.fixture
def all_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the form for many classes, however few there are."""
    monkeypatch.setattr(pairs, "MANY_CLASSES", 1)


def followed(classes: int) -> Tracker:
    generator = Generator().manual_seed(0)
    logits = 4 * torch.randn(3000, classes, generator=generator)
    labels = logits.softmax(dim=1).multinomial(1, generator=generator)[:, 0]
    labels = torch.where(
        torch.rand(3000, generator=generator) < 0.3, (labels + 1) % classes, labels
    )
    tracker = Tracker(classes, half_life=150)
    for rows in torch.arange(3000).split(20):
        tracker.update(logits[rows].softmax(dim=1), labels[rows])
    probabilities, before = logits[-9:].softmax(dim=1), labels[-9:]
    tracker.relabel(probabilities, before, (before + 2) % classes, ages=torch.arange(9).flip(0))
    return tracker


def test_a_tracker_of_many_classes_is_that_of_few(request: pytest.FixtureRequest) -> None:
    dense = followed(10)
    request.getfixturevalue("all_are_many")
    recent = followed(10)
    assert recent.estimate() == dense.estimate()
    assert recent.confusion().is_sparse
    near = torch.testing.assert_close
    near(recent.confusion().to_dense(), dense.confusion(), atol=1e-4, rtol=0)
    near(recent.predicted(), dense.predicted(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["labels get worse", "two classes change their names"])
def test_the_same_changes_are_detected(name: str, request: pytest.FixtureRequest) -> None:
    parts = (BEFORE[0][2000:], BEFORE[1][2000:]), CHANGES[name][1]
    expected = changes_in(Alarm(6, 300), *parts)
    request.getfixturevalue("all_are_many")
    assert changes_in(Alarm(6, 300), *parts) == expected
    assert expected


def bytes_of(state: dict[str, Tensor]) -> int:
    return sum(part.nbytes for part in state.values())


def test_the_state_of_an_alarm_grows_with_classes_not_with_their_square() -> None:
    sizes = []
    for classes in (200, 2000):
        alarm = Alarm(classes)
        generator = Generator().manual_seed(0)
        labels = torch.randint(classes, (600,), generator=generator)
        rows = observe(torch.rand(600, classes, generator=generator), labels, classes)
        for _ in range(10):
            alarm.count(rows)
        sizes.append(bytes_of(alarm.state_dict()))
    assert sizes[1] < 10 * sizes[0]
    assert sizes[1] < 1200 * 2000  # bytes a class: 32 bins, two counts, two trackers


def test_a_stream_of_ten_thousand_classes_is_followed() -> None:
    classes, generator = 10_000, Generator().manual_seed(0)
    alarm = Alarm(classes, half_life=200)
    for slot in range(40):
        true = torch.randint(classes, (50,), generator=generator)
        logits = torch.zeros(50, classes).scatter_(1, true[:, None], 12.0)
        wrong = torch.rand(50, generator=generator) < 0.4
        other = torch.randint(classes, (50,), generator=generator)
        alarm.update(logits.softmax(dim=1), torch.where(wrong, other, true))
        assert alarm.pop_change() is None, slot
    assert alarm.estimate().value == pytest.approx(0.6, abs=0.05)
