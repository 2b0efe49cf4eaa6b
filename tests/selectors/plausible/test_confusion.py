"""Posteriors and the confusion matrix against a loop over rows and classes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tamis.noise import pairs
from tamis.selectors.plausible import Confusion, recent_confusion
from tamis.selectors.plausible.candidates import Candidates
from tests.support.plausible_loops import ConfusionLoops, assert_near, double, make_candidates


def update(rule: Confusion, rows: Candidates, classes: Tensor, clean_ratio: float) -> Tensor:
    """Return the posterior, and count the rows by all of it."""
    posterior = rule.posterior(rows, classes, clean_ratio)
    rule.update(rows, posterior, posterior.argsort(dim=1))
    return posterior


@pytest.fixture(params=[128, 1], ids=["few", "many"])
def most_dense(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take four classes for few, or for many."""
    monkeypatch.setattr(pairs, "MANY_CLASSES", request.param)
    return request.param


def test_posteriors_and_matrix_are_those_of_the_loops(most_dense: int) -> None:
    rule = Confusion()
    loops = ConfusionLoops(4, rule)
    for seed in range(30):
        rows, ratio = double(make_candidates(12, 4, 3, seed)), 0.4 + seed / 60
        found = update(rule, rows, rows.probabilities, ratio)
        labels = rows.labels.tolist()
        assert_near(found, loops.update(rows.probabilities.tolist(), labels, ratio))
    if most_dense >= 4:
        assert_near(rule.matrix(0.7, 12), loops.matrix(0.7, 12))


def test_it_learns_that_labels_move_to_the_next_class() -> None:
    rule, rows = Confusion(), make_candidates(400, 4, 3, 0)
    true = torch.eye(4)[torch.arange(400) % 4]
    rows.labels[:] = (torch.arange(400) + (torch.arange(400) % 3 == 0)) % 4
    for _ in range(100):
        update(rule, rows, 0.9 * true + 0.025, 2 / 3)
    matrix = rule.matrix(2 / 3, 400)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(4))
    assert matrix.fill_diagonal_(0).argmax(dim=1).tolist() == [1, 2, 3, 0]


def test_saved_and_resumed_equals_unbroken(most_dense: int) -> None:
    rule, resumed = Confusion(), Confusion()
    assert rule.state_dict() == {}
    rows = make_candidates(12, 4, 3, 0)
    update(rule, rows, rows.probabilities, 0.6)
    resumed.load_state_dict(rule.state_dict())
    ours, theirs = (update(one, rows, rows.probabilities, 0.6) for one in (rule, resumed))
    assert torch.equal(ours, theirs)
    resumed.load_state_dict({})
    assert resumed.state_dict() == {}


def test_rows_that_are_not_usable_do_not_count(most_dense: int) -> None:
    rule, other, rows = Confusion(), Confusion(), make_candidates(12, 4, 3, 0)
    rows.usable[6:] = False
    changed = rows._replace(labels=rows.labels.clone())
    changed.labels[6:] = 3 - changed.labels[6:]
    update(rule, rows, rows.probabilities, 0.6)
    update(other, changed, rows.probabilities, 0.6)
    ours, theirs = (one.posterior(rows, rows.probabilities, 0.6) for one in (rule, other))
    torch.testing.assert_close(ours, theirs)


def test_two_classes_a_row_are_nearly_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 classes, with pair noise: the pairs that matter are the likeliest ones."""
    rows = make_candidates(400, 20, 8, 0)
    classes = (rows.probabilities * 8).softmax(dim=1)
    dense, recent = Confusion(), Confusion()
    for most, rule in ((128, dense), (1, recent)):
        monkeypatch.setattr(pairs, "MANY_CLASSES", most)
        for _ in range(60):
            posterior = rule.posterior(rows, classes, 0.75)
            rule.update(rows, posterior, posterior.topk(2, dim=1).indices)
        found = rule.posterior(rows, classes, 0.75)
        if rule is dense:
            expected = found
    assert (found.argmax(dim=1) == expected.argmax(dim=1)).float().mean() > 0.97


def test_the_oldest_pairs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MANY_CLASSES", 1)
    monkeypatch.setattr(recent_confusion, "MOST_PAIRS", 100)
    rule, resumed = Confusion(), Confusion()
    for seed in range(5):
        rows = make_candidates(12, 4, 3, seed)
        update(rule, rows, rows.probabilities, 0.6)
    state = rule.state_dict()
    assert state["pairs"].shape == (2, 100)
    resumed.load_state_dict(state)
    for one in (rule, resumed):
        update(one, rows, rows.probabilities, 0.6)
    ours, theirs = (one.state_dict() for one in (rule, resumed))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_memory_grows_with_classes_not_with_their_square() -> None:
    sizes = []
    for classes in (200, 2000):
        rule, rows = Confusion(), make_candidates(40, classes, 3, 0)
        posterior = rule.posterior(rows, rows.probabilities, 0.6)
        rule.update(rows, posterior, posterior.topk(2, dim=1).indices)
        sizes.append(sum(part.nbytes for part in rule.state_dict().values()))
    assert sizes[1] < 10 * sizes[0]
    assert sizes[1] < 10 * 2000 + 24 * 80
