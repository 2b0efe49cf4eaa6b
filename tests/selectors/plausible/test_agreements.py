"""Agreements of labels, votes and predictions against a loop over rows."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.selectors.plausible import Agreements
from tamis.selectors.plausible.candidates import Candidates
from tests.support.plausible_loops import AgreementLoops, assert_near, double, make_candidates


def update(
    rule: Agreements, seed: int, rows: Candidates | None = None
) -> tuple[Candidates, Tensor]:
    rows = rows or double(make_candidates(23, 4, 3, seed))
    votes = rows.probabilities + 0.5 * rows.probabilities.roll(1, dims=0)
    rule.update(rows, votes, rows.probabilities, rows.probabilities.log())
    return rows, votes


def test_they_are_those_of_the_loops() -> None:
    rule = Agreements()
    loops = AgreementLoops(4, rule)
    for seed in range(20):
        rows, votes = update(rule, seed)
        parts = (rows.labels, votes, rows.probabilities, rows.probabilities.log())
        loops.update(*(part.tolist() for part in parts))
        assert rule.judges().item() == pytest.approx(loops.judges)
        assert rule.clean_ratio().item() == pytest.approx(loops.clean_ratio())
        assert float(rule.evenness()) == pytest.approx(loops.evenness())
        assert_near(rule.by_class(), loops.by_class())


def judged(accuracy: float, clean_ratio: float, hit: int | None = None) -> Agreements:
    """Return agreements of 20,000 rows, two independent judges, and labels wrong at random.

    Where a class is `hit`, it alone has wrong labels.
    """
    generator = Generator().manual_seed(0)
    true = torch.randint(10, (20_000,), generator=generator)

    def wrong_by(share: Tensor | float) -> Tensor:
        wrong = torch.rand(20_000, generator=generator) < share
        moved = (true + torch.randint(1, 10, (20_000,), generator=generator)) % 10
        return torch.where(wrong, moved, true)

    first, second = (functional.one_hot(wrong_by(1 - accuracy), 10).float() for _ in range(2))
    rate = 1 - clean_ratio
    labels = wrong_by(rate if hit is None else torch.where(true == hit, rate, 0.0))
    usable = torch.ones(20_000, dtype=torch.bool)
    rule = Agreements()
    rows = Candidates(first, second, labels, usable, usable.float(), first)
    rule.update(rows, first, second, second)
    return rule


@pytest.mark.parametrize("accuracy", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("clean_ratio", [0.3, 0.7, 0.9])
def test_the_accuracy_of_the_judges_is_taken_into_account(
    accuracy: float, clean_ratio: float
) -> None:
    rule = judged(accuracy, clean_ratio)
    assert rule.clean_ratio().item() == pytest.approx(clean_ratio, abs=0.03)


def test_poor_judges_are_right_no_more_often_than_they_agree() -> None:
    rule = judged(0.6, 0.7)
    assert rule.judges() < 0.5
    assert rule.accuracy() == rule.judges()


def test_a_class_of_wrong_labels_stands_out() -> None:
    by_class = judged(0.95, 0.5, hit=3).by_class()
    assert by_class.argmin() == 3
    assert by_class[3] < 0.75 < by_class[[0, 1, 2, 4]].min()


def test_classes_do_not_count_apart_before_the_judges_agree() -> None:
    assert judged(0.5, 0.5, hit=3).by_class().tolist() == [1.0] * 10


def test_rows_that_are_not_usable_do_not_count() -> None:
    rule, other = Agreements(), Agreements()
    rows = double(make_candidates(12, 4, 3, 0))
    rows.usable[6:] = False
    changed = rows._replace(labels=rows.labels.clone())
    changed.labels[6:] = 3 - changed.labels[6:]
    update(rule, 0, rows)
    update(other, 0, changed)
    assert rule.clean_ratio() == other.clean_ratio()
    assert rule.evenness() == other.evenness()


def test_saved_and_resumed_equals_unbroken() -> None:
    rule, resumed = Agreements(), Agreements()
    assert rule.state_dict() == {}
    update(rule, 0)
    resumed.load_state_dict(rule.state_dict())
    for one in (rule, resumed):
        update(one, 1)
    assert torch.equal(rule.by_class(), resumed.by_class())
    assert rule.doubt() == resumed.doubt()


def test_a_new_class_begins_with_the_mean() -> None:
    rule = Agreements()
    update(rule, 0)
    rule.grow(6)
    assert rule.by_class()[4:].tolist() == pytest.approx([1.0, 1.0])


def seen_first(rule: Agreements, share: float, count: int = 100, distinct: float = 400) -> None:
    """Count rows that are new, with certain judges and so many labels that agree."""
    named = functional.one_hot(torch.arange(count) % 4, 4).double()
    labels = (torch.arange(count) + (torch.arange(count) >= count * share)) % 4
    rows = double(make_candidates(count, 4, 3, 0))._replace(probabilities=named, labels=labels)
    new = torch.ones(count, dtype=torch.bool)
    rule.update(rows, named, named, named, new=new, distinct=distinct)


def test_what_rows_gave_at_first_stands_while_they_are_learned_by_heart() -> None:
    rule = Agreements()
    seen_first(rule, 0.4)
    for _ in range(300):
        rows = double(make_candidates(100, 4, 3, 0))
        given = functional.one_hot(rows.labels, 4).double()
        same = rows._replace(probabilities=given)
        rule.update(same, given, given, given, new=torch.zeros(100, dtype=torch.bool), distinct=400)
    assert rule.clean_ratio() > 0.95
    assert rule.clean_ratio_at_first().item() == pytest.approx(0.4, abs=0.01)


def test_what_rows_gave_at_first_fades_as_they_are_replaced() -> None:
    """A loop over slots: counts have half their weight after a quarter of the pool."""
    rule, rows, agreeing = Agreements(), 0.0, 0.0
    for share in (0.9, 0.8, 0.5, 0.3, 0.3):
        seen_first(rule, share)
        kept = max(0.0, 1 - 100 / (0.5 * 400))
        rows, agreeing = rows * kept + 100, agreeing * kept + 100 * share
        right = 0.995
        coincidence = (1 - right) / 3
        expected = (agreeing / rows - coincidence) / (right - coincidence)
        assert rule.clean_ratio_at_first().item() == pytest.approx(expected)


def test_few_rows_seen_at_first_count_for_nothing() -> None:
    rule = Agreements()
    assert rule.clean_ratio_at_first() == 1
    seen_first(rule, 0.4, count=63)
    assert rule.clean_ratio_at_first() == 1
    resumed = Agreements()
    seen_first(rule, 0.4, count=2)
    resumed.load_state_dict(rule.state_dict())
    assert resumed.clean_ratio_at_first() == rule.clean_ratio_at_first() < 0.5
