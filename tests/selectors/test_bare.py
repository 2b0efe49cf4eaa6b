"""BARE against its rule, row by row in plain floats."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import BARE

LOCAL = ModelView(nn.Identity())  # inputs are logits


def make_pool(seed: int, rows: int = 60, classes: int = 4) -> Samples:
    generator = Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return Samples.of(logits, torch.randint(classes, (rows,), generator=generator))


def passing(pool: Samples, deviations: float, among: str) -> set[int]:
    """The rule: probability in the given label >= mean + deviations * standard deviation."""
    probabilities, labels = [], pool.labels.tolist()
    for logits in pool.inputs.tolist():
        total = sum(math.exp(logit) for logit in logits)
        probabilities.append([math.exp(logit) / total for logit in logits])
    passed = set()
    for row, label in enumerate(labels):
        mates = [
            probability[label]
            for probability, other in zip(probabilities, labels, strict=True)
            if among == "batch" or other == label
        ]
        mean = sum(mates) / len(mates)
        variance = sum((probability - mean) ** 2 for probability in mates) / len(mates)
        if probabilities[row][label] >= mean + deviations * math.sqrt(variance):
            passed.add(row)
    return passed


def select(bare: BARE, pool: Samples, k: int = 1000, seed: int = 0) -> list[int]:
    return bare.select(pool, LOCAL, k, Generator().manual_seed(seed)).rows.tolist()


def sharp(labels: Tensor, right: Tensor, classes: int) -> Samples:
    """A pool under a model that is confident of the true class of every row."""
    truth = torch.where(right, labels, (labels + 1) % classes)
    return Samples.of(9.0 * torch.eye(classes)[truth], labels)


@pytest.mark.parametrize("case", range(20))
@pytest.mark.parametrize("among", ["batch", "label"])
@pytest.mark.parametrize("deviations", [0.0, 0.5, 1.0])
def test_the_rows_that_pass_are_the_rules(case: int, among: str, deviations: float) -> None:
    pool = make_pool(case)
    expected = passing(pool, deviations, among)
    assert 0 < len(expected) < len(pool)
    picked = select(BARE(deviations, among), pool)
    assert set(picked) == expected
    assert len(picked) == len(expected)


def test_at_most_k_and_each_can_be_picked() -> None:
    pool = make_pool(0)
    picks = [select(BARE(), pool, 3, seed) for seed in range(200)]
    assert all(len(rows) == 3 for rows in picks)
    assert {row for rows in picks for row in rows} == passing(pool, 1.0, "batch")


def test_means_over_a_label_stop_a_model_that_is_confident() -> None:
    """With more right than wrong labels, mean + deviation is over 1, and all rows are let in."""
    labels = torch.arange(100) % 4
    right = torch.arange(100) % 10 < 7
    pool = sharp(labels, right, 4)
    assert set(select(BARE(among="batch"), pool)) == set(right.nonzero()[:, 0].tolist())
    assert len(select(BARE(among="label"), pool)) == 100


def test_a_probability_on_the_threshold_passes() -> None:
    """The only row of its label is its own mean."""
    logits = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    pool = Samples.of(logits, torch.tensor([0, 0, 0, 1]))
    assert set(select(BARE(among="label"), pool)) == {0, 3}


def test_a_row_is_judged_within_its_draw() -> None:
    pool = make_pool(1, rows=500)
    picks = BARE(batch=40).select(pool, LOCAL, 10, Generator().manual_seed(3)).rows
    drawn = torch.randperm(500, generator=Generator().manual_seed(3))[:40]
    expected = {int(drawn[row]) for row in passing(pool[drawn], 1.0, "batch")}
    assert len(expected) <= 10
    assert set(picks.tolist()) == expected


@pytest.mark.parametrize("among", ["batch", "label"])
def test_ties_are_broken_at_random(among: str) -> None:
    pool = Samples.of(torch.zeros(30, 3), torch.arange(30) % 3)
    picked = [select(BARE(among=among), pool, 5, seed) for seed in range(60)]
    assert all(len(rows) == 5 for rows in picked)
    assert {row for rows in picked for row in rows} == set(range(30))


@pytest.mark.parametrize("among", ["batch", "label"])
def test_one_row_and_one_class(among: str) -> None:
    bare = BARE(among=among)
    assert select(bare, make_pool(0, rows=1)) == [0]
    one_class = Samples.of(make_pool(0).inputs, torch.zeros(60, dtype=torch.long))
    assert set(select(bare, one_class)) == passing(one_class, 1.0, among)
    one_output = Samples.of(torch.randn(9, 1), torch.zeros(9, dtype=torch.long))
    assert sorted(select(bare, one_output)) == list(range(9))


def test_rows_that_cannot_be_judged_change_nothing() -> None:
    pool = make_pool(2)
    bad = torch.full((3, 4), torch.nan, dtype=torch.float64)
    with_bad = Samples.of(
        torch.cat([pool.inputs, bad, pool.inputs[:1]]),
        torch.cat([pool.labels, torch.zeros(3, dtype=torch.long), torch.tensor([-100])]),
    )
    assert set(select(BARE(), with_bad)) == passing(pool, 1.0, "batch")


def test_a_probability_that_overflows_is_left_out() -> None:
    class Squares(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.square()

    inputs = torch.tensor([[1e30, 1e30], [3.0, 0.0], [0.0, 3.0], [2.0, 2.0]])
    pool = Samples.of(inputs, torch.tensor([0, 0, 1, 0]))
    rows = BARE().select(pool, ModelView(Squares()), 4, Generator().manual_seed(0)).rows
    assert set(rows.tolist()) == {1, 2}
    only = pool[torch.tensor([0])]
    assert len(BARE().select(only, ModelView(Squares()), 4, Generator().manual_seed(0))) == 0


def test_what_means_are_taken_among_is_checked() -> None:
    with pytest.raises(ValueError, match="among"):
        BARE(among="row")
