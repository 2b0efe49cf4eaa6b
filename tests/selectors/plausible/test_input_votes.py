"""Votes by inputs: whom they agree with more often, and of what there are none."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis import Plausible
from tamis.model_view.sketch import sketch
from tamis.selectors.plausible import Agreements, InputVotes
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.input_votes import EVERY
from tests.support.identical import identical
from tests.support.plausible_loops import InputVoteLoops, assert_near, double, make_candidates


def wide(rows: int = 60, width: int = 300, seed: int = 0) -> Candidates:
    """Return candidates of many inputs each, similar within a class."""
    found = make_candidates(rows, 4, 3, seed)
    generator = Generator().manual_seed(seed)
    centres = torch.randn(4, width, generator=Generator().manual_seed(9))
    inputs = centres[found.labels] + 0.5 * torch.randn(rows, width, generator=generator)
    return found._replace(inputs=sketch(inputs))


def test_they_are_those_of_the_loops() -> None:
    rule = InputVotes()
    loops = InputVoteLoops(4, rule)
    for seed in range(20 * EVERY):
        rows, ids = double(make_candidates(23, 4, 3, seed)), torch.arange(23) + 10 * seed
        columns = (rows.inputs, rows.labels, rows.uses, ids)
        due, votes = rule.due, rule.update(rows, ids)
        expected = loops.update(*(part.tolist() for part in columns))
        assert due is (seed % EVERY == 0) is (votes is not None) is (expected is not None)
        if votes is not None:
            assert_near(votes, expected)


def test_of_names_there_are_none() -> None:
    rows = wide()
    assert InputVotes().update(rows._replace(inputs=rows.inputs[:, :0]), torch.arange(60)) is None


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e30])
def test_a_bad_row_harms_no_other(bad: float) -> None:
    """Where it is not usable, or far beyond all others."""
    rows, ids = wide(), torch.arange(60)
    damaged = rows._replace(inputs=rows.inputs.clone(), usable=torch.arange(60) != 7)
    damaged.inputs[7] = bad
    rule, other = InputVotes(), InputVotes()
    for _ in range(2 * EVERY + 1):
        votes, without = rule.update(damaged, ids), other.update(rows, ids)
    assert votes is not None
    assert without is not None
    assert votes.isfinite().all()
    good = ids != 7
    assert (votes.argmax(dim=1) == without.argmax(dim=1))[good].float().mean() > 0.95
    far = rows._replace(inputs=damaged.inputs)
    if bad == 1e30:
        votes = InputVotes().update(far, ids)
        assert votes is not None
        assert (votes.argmax(dim=1) == rows.labels)[good].float().mean() > 0.9


def drawn(accuracy: float, true: Tensor, generator: Generator) -> Tensor:
    """Return classes that are right so often, and wrong at random elsewhere."""
    wrong = torch.rand(len(true), generator=generator) >= accuracy
    moved = (true + torch.randint(1, 10, true.shape, generator=generator)) % 10
    return torch.where(wrong, moved, true)


def counted(evidence: float, inputs: float, labels: float) -> Agreements:
    """Return agreements of 20,000 rows where votes and predictions are one, and so accurate."""
    generator = Generator().manual_seed(0)
    true = torch.randint(10, (20_000,), generator=generator)
    named = functional.one_hot(drawn(evidence, true, generator), 10).float()
    near = functional.one_hot(drawn(inputs, true, generator), 10).float()
    usable = torch.ones(20_000, dtype=torch.bool)
    given = drawn(labels, true, generator)
    rule = Agreements()
    rows = Candidates(named, named, given, usable, usable.float(), near)
    rule.update(rows, named, named, named, near)
    return rule


def test_where_data_are_hard_labels_are_not_taken_for_wrong() -> None:
    """Both judges are wrong in the same half of the rows, and alone would put it down to labels."""
    rule = counted(evidence=0.5, inputs=0.6, labels=0.9)
    assert rule.judges().item() == pytest.approx(1, abs=1e-4)
    assert rule.agreeing() < 0.5
    assert rule.clean_ratio() > 0.85
    assert rule.confirmation() < 0.5
    rule._judges.value = torch.tensor(0.6)
    expected = 0.2 + 0.8 * 0.6 * float(rule.confirmation())
    assert rule.weighting().item() == pytest.approx(expected)


def test_where_evidence_is_good_wrong_labels_are_seen_as_such() -> None:
    rule = counted(evidence=0.97, inputs=0.8, labels=0.6)
    assert rule.clean_ratio().item() == pytest.approx(0.6, abs=0.05)
    assert rule.confirmation() == 1
    assert rule.weighting() == 1


def test_without_them_the_judges_alone_count() -> None:
    rule = Agreements()
    rows = make_candidates(40, 4, 3, 0)
    rule.update(rows, rows.probabilities, rows.probabilities, rows.probabilities.log())
    assert rule.confirmation() == 1.0


def test_saved_and_resumed_equals_unbroken() -> None:
    rule = InputVotes()
    assert rule.state_dict() == {}
    rule.update(wide(), torch.arange(60))
    resumed = InputVotes()
    resumed.load_state_dict(rule.state_dict())
    for slot in range(1, EVERY + 1):
        ids = 100 * slot + torch.arange(60)
        votes = [one.update(wide(seed=slot), ids) for one in (rule, resumed)]
    assert votes[0] is not None
    assert votes[1] is not None
    assert votes[0].equal(votes[1])
    assert identical(rule.state_dict(), resumed.state_dict())


def test_changed_and_withdrawn_labels_reach_them() -> None:
    selector = Plausible()
    rows, ids = wide(), torch.arange(60)
    none_new = torch.zeros(60, dtype=torch.bool)
    selector.judge(rows, ids, none_new, 60)
    before = copy.deepcopy(selector.state_dict())
    selector.relabel(torch.tensor([3]), torch.tensor([2]))
    selector.remove(torch.tensor([4]))
    after = selector.state_dict()
    assert after["input_votes.neighbours.labels"][3] == 2
    assert after["input_votes.neighbours.weights"][4] == 0
    assert before["input_votes.neighbours.weights"][4] > 0
