"""The scale of the numbers of a table, and what is missing in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tamis.sources.scaling import Magnitudes, Moments
from tamis.sources.schema import Schema
from tamis.sources.schema.cells import Cells


class Measured(NamedTuple):
    """Mean and deviation of all numbers; how many cells of a column are missing or unreadable."""

    mean: Tensor
    deviation: Tensor
    missing: Mapping[str, int]
    unreadable: Mapping[str, int]


def measure_table(schema: Schema, read: Callable[[], Iterable[Mapping[str, Cells]]]) -> Measured:
    """Return the scale of all numbers, and what is missing; codes and n-grams have no scale.

    Where a value is far beyond all others, the blocks are read again to measure without it.
    """
    moments, magnitudes = Moments(), Magnitudes()
    missing: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()
    for columns in filter(has_rows, read()):
        found = schema.read(columns)
        missing.update({name: int(places.sum()) for name, places in found.missing.items()})
        unreadable.update({name: int(places.sum()) for name, places in found.unreadable.items()})
        moments.update(numbers_of(schema, found.rows))
        magnitudes.update(numbers_of(schema, found.rows))
    if np.isfinite(bounds := magnitudes.bounds()).any():
        moments = Moments(bounds)
        for columns in filter(has_rows, read()):
            moments.update(numbers_of(schema, schema.encode(columns)))
    mean, deviation = moments.mean_and_deviation()
    if len(schema.input_shape) == 1:
        others = schema.layout.width - schema.layout.numbers
        mean = torch.cat([mean, torch.zeros(others)])
        deviation = torch.cat([deviation, torch.ones(others)])
    return Measured(mean, deviation, missing, unreadable)


def has_rows(columns: Mapping[str, Cells]) -> bool:
    """Return whether a block has any row."""
    return len(next(iter(columns.values()), ())) > 0


def numbers_of(schema: Schema, rows: np.ndarray) -> np.ndarray:
    """Return what is a number in encoded rows; all of a picture."""
    return rows[:, : schema.layout.numbers] if len(schema.input_shape) == 1 else rows
