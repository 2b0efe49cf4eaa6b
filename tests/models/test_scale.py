"""Scaling of raw columns, as a layer."""

from __future__ import annotations

import torch

from tamis.models import Scale


def test_columns_get_mean_0_and_deviation_1() -> None:
    inputs = torch.tensor([[1, 10], [3, 30]])
    scale = Scale(torch.tensor([2.0, 20.0]), torch.tensor([1.0, 10.0]))
    assert scale(inputs).tolist() == [[-1, -1], [1, 1]]


def test_a_deviation_too_small_to_divide_by_is_that_of_a_constant() -> None:
    scale = Scale(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1e-42]))
    assert scale(torch.tensor([[1.0, 2.0], [1.0, 3.0]])).tolist() == [[0, 0], [0, 1]]
