"""Agreements of labels, votes and predictions against a loop over rows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.selectors.plausible import Agreements
from tamis.selectors.plausible.candidates import Candidates
from tests.support.plausible_loops import AgreementLoops, assert_near, double, make_candidates


def update(
    rule: Agreements,
    seed: int,
    rows: Candidates | None = None,
    held_back: Tensor | None = None,
    distinct: float = math.inf,
) -> tuple[Candidates, Tensor]:
    rows = rows or double(make_candidates(23, 4, 3, seed))
    votes = rows.probabilities + 0.5 * rows.probabilities.roll(1, dims=0)
    held_back = torch.zeros_like(rows.usable) if held_back is None else held_back
    probabilities = rows.probabilities
    rule.update(rows, votes, probabilities, probabilities.log(), held_back, distinct)
    return rows, votes


@pytest.mark.parametrize("distinct", [30, 200, math.inf])
def test_they_are_those_of_the_loops(distinct: float) -> None:
    """Labels held back come to differ, so that those of the others seem to be known by heart."""
    rule, memorising = Agreements(), []
    loops = AgreementLoops(4, rule)
    for seed in range(40):
        rows, held_back = double(make_candidates(23, 4, 3, seed)), torch.arange(23) % 5 == seed % 3
        likely = rows.probabilities.argmax(dim=1)
        labels = torch.where(held_back & (torch.arange(23) > 8), (likely + 1) % 4, likely)
        rows = rows._replace(labels=labels if seed > 10 else rows.labels)
        _, votes = update(rule, seed, rows, held_back, distinct)
        parts = (rows.labels, votes, rows.probabilities, rows.probabilities.log())
        listed = [part.tolist() for part in parts]
        loops.update(*listed, held_back=held_back.tolist(), distinct=distinct)
        assert rule.judges().item() == pytest.approx(loops.judges)
        assert rule.clean_ratio().item() == pytest.approx(loops.clean_ratio())
        assert rule.evenness().item() == pytest.approx(loops.evenness())
        for ratio in (0.2, 0.8):
            found = rule.difficulty(torch.tensor(ratio)).item()
            assert found == pytest.approx(loops.difficulty(ratio))
        assert rule.memorising().item() == pytest.approx(loops.memorising, abs=1e-4)
        assert_near(rule.by_class(), loops.by_class())
        memorising.append(loops.memorising)
    assert min(memorising) == 0
    assert max(memorising) > 0 or distinct == 30, "thirty rows may differ by chance"


def known_by_heart(share: float, held: int = 0, clean_ratio: float = 0.2) -> Agreements:
    """Return agreements of slots of 400 rows, `held` of them held back.

    The judges are right, and repeat a share of the wrong labels of the other rows.
    """
    generator, rule = Generator().manual_seed(0), Agreements()
    for _ in range(20):
        true = torch.randint(10, (400,), generator=generator)
        wrong = torch.rand(400, generator=generator) >= clean_ratio
        labels = torch.where(wrong, (true + 1) % 10, true)
        held_back = torch.arange(400) < held
        learned = (torch.rand(400, generator=generator) < share) & ~held_back
        judged = functional.one_hot(torch.where(learned, labels, true), 10).float()
        usable = torch.ones(400, dtype=torch.bool)
        rows = Candidates(judged, judged, labels, usable, usable.float())
        rule.update(rows, judged, judged, judged, held_back, 4000)
    return rule


def test_labels_known_by_heart_are_noticed_by_those_held_back() -> None:
    fooled, rule = known_by_heart(0.9), known_by_heart(0.9, held=25)
    assert fooled.clean_ratio() > 0.85
    assert fooled.memorising() == 0
    assert rule.memorising() == 1
    assert rule.clean_ratio().item() == pytest.approx(0.2, abs=0.05)
    assert rule.learned_by_heart().item() == pytest.approx(0.68, abs=0.05)


def test_labels_not_known_by_heart_are_counted_with_all_rows() -> None:
    rule = known_by_heart(0, held=25, clean_ratio=0.7)
    assert rule.memorising() < 0.3
    assert rule.learned_by_heart() < 0.02
    assert rule.clean_ratio().item() == pytest.approx(0.7, abs=0.03)


def test_easy_rows_are_preferred_where_labels_are_wrong_and_the_judges_differ() -> None:
    few, half, most = (torch.tensor(ratio) for ratio in (0.1, 0.5, 0.9))
    assert judged(0.97, 0.5).difficulty(half) > 0.9
    assert judged(0.35, 0.5).difficulty(most) > 0.8
    assert judged(0.35, 0.5).difficulty(half).abs() < 0.3
    assert judged(0.2, 0.1).difficulty(few) < -0.8


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
    rows = Candidates(first, second, labels, usable, usable.float())
    rule.update(rows, first, second, second, torch.zeros_like(usable), math.inf)
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
