"""Mean and deviation that one huge value does not decide; ordinary columns keep their bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tamis.sources import Validator, open_table
from tamis.sources.scaling import FARTHEST, measure_columns


def ordinary(rows: int = 2_000) -> torch.Tensor:
    """Columns as they come: heavy tails, an offset, few above 0, a marker of missing values."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, 6, generator=generator)
    inputs[:, 1] = (5 * inputs[:, 1]).exp()
    inputs[:, 2] += 1e4
    inputs[:, 3] *= torch.rand(rows, generator=generator) < 0.001
    inputs[::500, 4] = -999_999.0
    inputs[:, 5] *= 1e-6
    return inputs


def write(path: Path, inputs: torch.Tensor) -> Path:
    np.savez(path, inputs=inputs.numpy(), label=np.arange(len(inputs)) % 3)
    return path


def test_ordinary_columns_keep_every_bit(tmp_path: Path) -> None:
    inputs = ordinary()
    mean, deviation = measure_columns(inputs)
    assert torch.equal(mean, inputs.mean(dim=0))
    assert torch.equal(deviation, inputs.std(dim=0, correction=0))
    table = open_table(write(tmp_path / "rows.npz", inputs), "label", Validator())
    values = inputs.double().numpy()
    mean = values.sum(axis=0) / len(values)
    square = (values**2).sum(axis=0) / len(values)
    assert torch.equal(table.mean, torch.tensor(mean).float())
    assert torch.equal(table.deviation, torch.tensor(np.sqrt(square - mean**2)).float())


@pytest.mark.parametrize("value", [1e20, -1e20, 3e38])
@pytest.mark.parametrize("row", [0, 1999])
def test_one_huge_value_changes_neither_mean_nor_deviation(
    value: float, row: int, tmp_path: Path
) -> None:
    inputs = ordinary()
    others = torch.cat([inputs[:row], inputs[row + 1 :]])
    inputs[row] = value
    table = open_table(write(tmp_path / "rows.npz", inputs), "label", Validator())
    wide = others.double()
    for mean, deviation in (measure_columns(inputs), (table.mean, table.deviation)):
        torch.testing.assert_close(mean, wide.mean(dim=0).float())
        expected = wide.std(dim=0, correction=0).float()
        torch.testing.assert_close(deviation, expected, rtol=1e-3, atol=0)


def test_one_huge_picture_does_not_decide_the_scale(tmp_path: Path) -> None:
    images = torch.rand(100, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    before = open_table(write(tmp_path / "good.npz", images[1:]), "label", Validator())
    images[0] = 1e20
    table = open_table(write(tmp_path / "rows.npz", images), "label", Validator())
    torch.testing.assert_close(table.mean, before.mean)
    torch.testing.assert_close(table.deviation, before.deviation)
    assert measure_columns(images)[1].max() < 1


def test_a_value_is_left_out_only_where_it_is_rare_and_very_far() -> None:
    inputs = ordinary()
    inputs[5, 0] = inputs[:, 0].abs().max() * FARTHEST / 4
    inputs[:, 5] *= 0
    inputs[7, 5] = 1e30  # the others are 0: no scale is better for them than another
    inputs[::400, 3] = 1e30  # 5 in 2,000 rows are a value of the column
    _, deviation = measure_columns(inputs)
    for column in (0, 3, 5):
        expected = inputs[:, column].double().std(correction=0).float()
        torch.testing.assert_close(deviation[column], expected, rtol=1e-4, atol=0)


def is_left_out(rows: int, huge: int, value: float, largest: float = 1.0) -> bool:
    """Return whether so many values of a column, all others up to `largest`, have no part."""
    column = torch.linspace(-largest, largest, rows)
    column[1 : 1 + huge] = value
    _, deviation = measure_columns(column[:, None])
    return bool(deviation < 2 * largest)


@pytest.mark.parametrize("largest", [1e-9, 1.0, 1.5, 1.999, 3e4])
def test_how_far_a_value_is_that_is_left_out(largest: float) -> None:
    assert is_left_out(500, 1, 1.01 * 2**31 * largest, largest)
    assert not is_left_out(500, 1, 0.99 * 2**30 * largest, largest)


@pytest.mark.parametrize(
    ("rows", "huge", "left_out"),
    [(20, 1, True), (20, 2, False), (1999, 1, True), (1999, 2, False), (2000, 2, True),
     (2000, 3, False), (5000, 5, True), (5000, 6, False)],
)  # fmt: skip
def test_how_many_rows_are_left_out(rows: int, huge: int, left_out: bool) -> None:
    assert is_left_out(rows, huge, 1e30) == left_out


def test_squares_that_overflow_have_a_deviation() -> None:
    inputs = 1e25 * (1 + torch.rand(500, 2, generator=torch.Generator().manual_seed(0)))
    _, deviation = measure_columns(inputs)
    expected = inputs.double().std(dim=0, correction=0).float()
    torch.testing.assert_close(deviation, expected, rtol=1e-3, atol=0)
