"""Votes of neighbours against a loop over voters."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tamis.noise import pairs
from tamis.selectors.plausible import Neighbours
from tests.support.plausible_loops import (
    NeighbourLoops,
    assert_near,
    double,
    make_candidates,
    part_of,
)


@pytest.mark.parametrize("most_dense", [128, 3])
@pytest.mark.parametrize(("classes", "width", "voters"), [(2, 1, 30), (4, 6, 9), (10, 3, 200)])
def test_votes_are_those_of_the_loops(
    classes: int, width: int, voters: int, most_dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring fills up and wraps round; rows recur; one has fewer voters than a slot has rows."""
    monkeypatch.setattr(pairs, "MANY_CLASSES", most_dense)
    rule = Neighbours(voters=voters)
    loops, generator = NeighbourLoops(classes, rule), Generator().manual_seed(1)
    every = make_candidates(40, classes, width, classes)
    for slot in range(20):
        ids = torch.randperm(40, generator=generator)[: 1 if slot == 0 else 12]
        rows, ratio = double(part_of(every, ids), 1 + slot / 50, slot % 7), 0.5 + slot / 50
        votes, places = rule.update(rows, ids, ratio)
        columns = (rows.features, rows.labels, rows.uses, ids)
        assert_near(votes, loops.update(*(column.tolist() for column in columns), ratio))
        right = torch.rand(len(ids), generator=generator, dtype=torch.float64)
        rule.set_weights(places, right, rows.usable)
        loops.set_weights(right.tolist())


def test_votes_are_those_of_the_loops_however_sharp_they_are() -> None:
    rule, ids = Neighbours(sharpness=300.0), torch.arange(40)
    rows = make_candidates(40, 4, 6, 0)
    loops, columns = NeighbourLoops(4, rule), double(rows)
    votes, _ = rule.update(columns, ids, 0.5)
    given = (columns.features, columns.labels, columns.uses, ids)
    assert_near(votes, loops.update(*(column.tolist() for column in given), 0.5))
    single, _ = Neighbours(sharpness=300.0).update(rows, ids, 0.5)
    torch.testing.assert_close(single.sum(dim=1), torch.ones(40))


@pytest.mark.parametrize("rows", [1, 31, 33, 600])
def test_single_precision_is_near_double(rows: int) -> None:
    """On some processors the product is in bfloat16, and rows are filled up to few numbers."""
    every, ids, rule = make_candidates(rows, 5, 40, 0), torch.arange(rows), Neighbours(voters=500)
    votes, _ = rule.update(every, ids, 0.5)
    exact, _ = Neighbours(voters=500).update(double(every), ids, 0.5)
    torch.testing.assert_close(votes.double(), exact, rtol=0, atol=0.05)
    torch.testing.assert_close(votes.sum(dim=1), torch.full((rows,), float(rows > 1)))


def test_unusable_rows_have_no_vote() -> None:
    rows, rule = make_candidates(30, 3, 4, 0), Neighbours()
    rows.usable[10:] = False
    votes, _ = rule.update(rows, torch.arange(30), 0.5)
    alone, _ = Neighbours().update(part_of(rows, torch.arange(10)), torch.arange(10), 0.5)
    torch.testing.assert_close(votes[:10], alone)


def test_a_relabelled_voter_votes_with_its_new_label_and_a_removed_one_not_at_all() -> None:
    rows, rule, ids = make_candidates(3, 3, 2, 0), Neighbours(), torch.arange(3)
    rows.labels[:] = 0
    rule.update(rows, ids, 0.5)
    rule.relabel(torch.tensor([1, 99]), torch.tensor([2, 1]))
    rule.remove(torch.tensor([2]))
    strangers = torch.arange(3) + 50
    assert rule.state_dict()["labels"][:3].tolist() == [0, 2, 0]
    rows.usable[:] = False  # so that these do not vote themselves
    votes, _ = rule.update(rows, strangers, 0.5)
    assert (votes[:, 1] == 0).all()
    assert (votes[:, [0, 2]] > 0).all()
    assert 2 not in rule.state_dict()["ids"]


def test_saved_and_resumed_equals_unbroken() -> None:
    rows, rule, resumed = make_candidates(30, 3, 4, 0), Neighbours(voters=50), Neighbours(voters=50)
    assert rule.state_dict() == {}
    rule.update(rows, torch.arange(30), 0.5)
    resumed.load_state_dict(rule.state_dict())
    for _ in range(3):
        ours, theirs = (one.update(rows, torch.arange(30), 0.5)[0] for one in (rule, resumed))
        assert torch.equal(ours, theirs)
    resumed.load_state_dict({})
    assert resumed.state_dict() == {}
