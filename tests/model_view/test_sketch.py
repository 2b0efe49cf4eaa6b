"""Inputs in few numbers: similar ones stay similar."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tamis.model_view.sketch import directions, sketch


@pytest.mark.parametrize("pixels", [False, True])
@pytest.mark.parametrize("shape", [(300,), (3, 10, 10)])
def test_inputs_of_many_numbers_stay_similar(shape: tuple[int, ...], pixels: bool) -> None:
    classes, generator = torch.arange(60) % 4, Generator().manual_seed(0)
    centres = torch.randn(4, *shape, generator=generator)
    inputs = centres[classes] + 0.5 * torch.randn(60, *shape, generator=generator)
    if pixels:
        inputs = (inputs * 20 + 128).clamp(0, 255).to(torch.uint8)
    found = sketch(inputs)
    assert found.shape == (60, 64)
    nearest = torch.cdist(found, found).fill_diagonal_(torch.inf).argmin(dim=1)
    assert (classes[nearest] == classes).float().mean() > 0.95


def test_directions_are_the_same_in_every_run() -> None:
    inputs = torch.randn(5, 100, generator=Generator().manual_seed(1))
    before = sketch(inputs)
    directions.cache_clear()
    assert before.equal(sketch(inputs))


def test_inputs_of_few_numbers_stay_as_they_are() -> None:
    inputs = torch.randn(5, 64, generator=Generator().manual_seed(1))
    assert sketch(inputs).equal(inputs)
    assert sketch(inputs.double()).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.long, torch.int32, torch.bool])
def test_names_have_none(dtype: torch.dtype) -> None:
    assert sketch(torch.ones(5, 100).to(dtype)).shape == (5, 0)
