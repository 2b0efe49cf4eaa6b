"""Posteriors and the confusion matrix against a loop over rows and classes."""

from __future__ import annotations

import torch

from tamis.selectors.plausible import Confusion
from tests.support.plausible_loops import ConfusionLoops, assert_near, double, make_candidates


def test_posteriors_and_matrix_are_those_of_the_loops() -> None:
    rule = Confusion()
    loops = ConfusionLoops(4, rule)
    for seed in range(30):
        rows, ratio = double(make_candidates(12, 4, 3, seed)), 0.4 + seed / 60
        found = rule.update(rows, rows.probabilities, ratio)
        labels = rows.labels.tolist()
        assert_near(found, loops.update(rows.probabilities.tolist(), labels, ratio))
    assert_near(rule.matrix(0.7, 12), loops.matrix(0.7, 12))


def test_it_learns_that_labels_move_to_the_next_class() -> None:
    rule, rows = Confusion(), make_candidates(400, 4, 3, 0)
    true = torch.eye(4)[torch.arange(400) % 4]
    rows.labels[:] = (torch.arange(400) + (torch.arange(400) % 3 == 0)) % 4
    for _ in range(100):
        rule.update(rows, 0.9 * true + 0.025, 2 / 3)
    matrix = rule.matrix(2 / 3, 400)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(4))
    assert matrix.fill_diagonal_(0).argmax(dim=1).tolist() == [1, 2, 3, 0]


def test_saved_and_resumed_equals_unbroken() -> None:
    rule, resumed = Confusion(), Confusion()
    assert rule.state_dict() == {}
    rows = make_candidates(12, 4, 3, 0)
    rule.update(rows, rows.probabilities, 0.6)
    resumed.load_state_dict(rule.state_dict())
    ours, theirs = (one.update(rows, rows.probabilities, 0.6) for one in (rule, resumed))
    assert torch.equal(ours, theirs)
    resumed.load_state_dict({})
    assert resumed.state_dict() == {}
