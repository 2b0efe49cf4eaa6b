"""Settings that follow the size of a table."""

from __future__ import annotations

import math

import pytest
import torch

from tamis.models.tabular import TableLayout, TableModel
from tamis.training.defaults import TableSettings


@pytest.mark.parametrize("rows", [1, 2, 124, 1000, 30_000, 100_000, 1_000_000, 50_000_000])
def test_every_row_arrives_is_held_and_is_picked(rows: int) -> None:
    sized = TableSettings(rows)
    assert 32 <= sized.k <= 256
    assert sized.k * sized.slots >= rows
    arrivals = math.ceil(rows / sized.rows_per_slot(sized.slots))
    assert arrivals <= sized.slots // 4
    assert math.ceil(rows / sized.rows_per_slot(10**9)) <= sized.slots // 4
    assert sized.capacity == min(rows, 1_000_000)


def test_the_cost_of_a_row_falls_with_the_size() -> None:
    picks = [
        TableSettings(rows).slots * TableSettings(rows).k / rows for rows in (10**3, 10**5, 10**6)
    ]
    assert picks[0] > 10 > picks[1] > 2 > picks[2]


def test_few_slots_still_see_the_complete_table() -> None:
    assert TableSettings(300).rows_per_slot(20) * 5 >= 300
    assert TableSettings(300).rows_per_slot(1) == 300


def test_only_matrices_decay() -> None:
    sized = TableSettings(100)
    model = sized.model(TableLayout(2, (4,)), 3, torch.randn(50, 3).abs(), seed=3)
    assert isinstance(model, TableModel)
    decayed, others = sized.optimizer(model).param_groups
    assert all(weight.dim() == 2 for weight in decayed["params"])
    assert any(weight is model.signs for weight in others["params"])
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.2, 0.0)
    assert len(decayed["params"]) + len(others["params"]) == len(list(model.parameters()))


def test_the_first_weights_come_from_the_seed() -> None:
    rows = torch.randn(50, 2)
    models = [TableSettings(50).model(TableLayout(2), 2, rows, seed) for seed in (1, 1, 2)]
    weights = [model.get_parameter("head.weight") for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
