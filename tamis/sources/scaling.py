"""Mean and deviation of columns, with values left out that would decide them alone.

A value is left out of a column where it is more than `FARTHEST` times as far from 0 as all values
of the other rows, and such rows are at most one in `RARE`. Any other column is measured as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

FARTHEST = 2.0**30
"""About 1e9: far beyond markers of missing values, as -999999, in columns of small numbers."""
RARE = 1000
"""Rows among which one may be left out; of fewer rows, one may."""
EXPONENTS, NOT_FINITE = 256, 255
"""Exponents of single precision; the highest is that of infinity and NaN, 0 that of 0."""
BIAS = 126
"""From an exponent to the power of 2 that all its numbers are below."""


class Magnitudes:
    """Counts the rows of each column by the exponent of their number, in single precision."""

    def __init__(self) -> None:
        self.counts = np.zeros((1, EXPONENTS), np.int64)

    def update(self, numbers: np.ndarray) -> None:
        """Count rows, (rows, columns); of more dimensions, a row counts by its largest number."""
        numbers = np.ascontiguousarray(numbers, np.float32)
        exponents = (numbers.view(np.uint32) >> 23) & NOT_FINITE
        if numbers.ndim > 2:
            exponents = exponents.reshape(len(numbers), -1).max(axis=1, keepdims=True, initial=0)
        columns = exponents.shape[1]
        places = exponents + EXPONENTS * np.arange(columns, dtype=np.int64)
        counts = np.bincount(places.ravel(), minlength=EXPONENTS * columns)
        self.counts = self.counts + counts.reshape(columns, EXPONENTS)

    def bounds(self) -> np.ndarray:
        """Return, for each column, the size beyond which values are left out; mostly infinite."""
        counts = self.counts[:, :NOT_FINITE]
        rows = counts.sum(axis=1, keepdims=True)
        at_least = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        usual = at_least > np.maximum(1, rows // RARE)
        largest = np.where(usual, np.arange(NOT_FINITE), 0).max(axis=1)
        highest = np.where(counts > 0, np.arange(NOT_FINITE), 0).max(axis=1)
        bounds = np.ldexp(FARTHEST, largest - BIAS)
        # Where all others are 0, no scale is better for them than another.
        return np.where((largest > 0) & (np.ldexp(1.0, highest - BIAS) > bounds), bounds, np.inf)


@dataclass
class Moments:
    """Count, sum and sum of squares of the finite values of each column, within its bound."""

    bounds: np.ndarray | float = np.inf
    count: np.ndarray = field(default_factory=lambda: np.zeros(1))
    total: np.ndarray = field(default_factory=lambda: np.zeros(1))
    squares: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def update(self, numbers: np.ndarray) -> None:
        """Add rows; an image has one scale, a table one for each column."""
        flat = numbers.astype(np.float64)
        if flat.ndim > 2:
            flat = flat.reshape(-1, 1)
        counted = np.isfinite(flat) & (np.abs(flat) <= self.bounds)
        values = np.where(counted, flat, 0)
        self.count = self.count + counted.sum(axis=0)
        self.total = self.total + values.sum(axis=0)
        self.squares = self.squares + (values**2).sum(axis=0)

    def mean_and_deviation(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each column, in single precision."""
        number = np.maximum(self.count, 1)
        mean = self.total / number
        deviation = np.sqrt(np.maximum(self.squares / number - mean**2, 0))
        return torch.tensor(mean).float(), torch.tensor(deviation).float()


def measure_columns(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of each number of a row over some rows."""
    inputs = inputs.float()
    mean, deviation = inputs.mean(dim=0), inputs.std(dim=0, correction=0)
    magnitudes = Magnitudes()
    magnitudes.update(inputs.flatten(1).numpy())
    bounds = torch.from_numpy(magnitudes.bounds()).reshape(mean.shape)
    wide = inputs.double()
    counted = wide.abs() <= bounds
    renewed = ~counted.all(dim=0) | ~deviation.isfinite()
    if not renewed.any():
        return mean, deviation
    number = counted.sum(dim=0).clamp_min(1)
    centre = torch.where(counted, wide, 0).sum(dim=0) / number
    square = torch.where(counted, wide - centre, 0).square().sum(dim=0) / number
    return (
        torch.where(renewed, centre.float(), mean),
        torch.where(renewed, square.sqrt().float(), deviation),
    )
