"""Columns of arrays: a picture, or a list of numbers, in every cell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import LARGEST, Cells
from tamis.sources.schema.column import FLAG_FROM, Column, Part
from tamis.sources.validation import BadInputError


@dataclass(frozen=True)
class Array(Column):
    """Numbers of one shape in every cell; a cell of another shape cannot be read.

    In a matrix, as NPZ files have, a missing number becomes its median, and numbers that are often
    missing have a flag at the end. In lists and pictures it is left, and the row is refused.
    """

    kind: ClassVar[str] = "array"
    part: ClassVar[Part] = "numbers"
    shape: tuple[int, ...] = (1,)
    medians: tuple[float, ...] = ()
    flags: tuple[int, ...] = ()

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with the shape that most of its cells have."""
        if not is_matrix(cells):
            return cls(name, usual_shape(name, cells))
        found = np.asarray(cells, np.float64)
        shape = found.shape[1:]
        absent = ~(np.abs(found) <= LARGEST)
        if not absent.any():
            return cls(name, shape)
        numbers = np.where(absent, np.nan, found)
        empty = absent.all(axis=0)
        numbers[:, empty] = 0
        medians = np.nanmedian(numbers, axis=0).astype(np.float32)
        places = np.flatnonzero(absent.mean(axis=0) >= FLAG_FROM)
        return cls(name, shape, tuple(medians.tolist()), tuple(places.tolist()))

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return prod(self.shape) + len(self.flags)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers by their place, and of the flags."""
        names = [f"{self.name}[{at}]" for at in range(prod(self.shape))]
        return (*names, *(f"{names[at]} missing" for at in self.flags))

    def read(self, cells: Cells) -> np.ndarray:
        """Return the numbers of each cell in one row, NaN where a cell has another shape."""
        size = prod(self.shape)
        try:
            found = np.asarray(cells, np.float64)
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.size == len(cells) * size and found.shape[1:] in (self.shape, ()):
            return found.reshape(len(cells), size)
        rows = np.full((len(cells), size), np.nan)
        for row, cell in zip(rows, cells, strict=True):
            if shape_of(cell) == self.shape:
                row[:] = np.asarray(cell, np.float64).ravel()
        return rows

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers, and the flags."""
        if self.medians:
            absent = ~(np.abs(values) <= LARGEST)
            values = np.where(absent, np.array(self.medians), values)
            values = np.concatenate([values, absent[:, list(self.flags)]], axis=1)
        with np.errstate(over="ignore"):
            return values.astype(np.float32)

    def unreadable(self, values: np.ndarray, cells: Cells) -> np.ndarray:
        """Return which cells are no array of the shape that the column has."""
        return np.asarray(np.isnan(values).all(axis=1), bool)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the shape: an array is for a picture, not for a cell of a page."""
        return f"(array of {' x '.join(map(str, self.shape))})"

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return in which rows some number is missing."""
        return np.asarray(~(np.abs(values) <= LARGEST).all(axis=1), bool)

    def note(self) -> str:
        """Return the shape."""
        return " x ".join(map(str, self.shape))


def is_matrix(cells: Cells) -> bool:
    """Return whether the cells are the rows of one matrix of numbers."""
    return isinstance(cells, np.ndarray) and cells.ndim <= 2 and cells.dtype.kind in "fiub"


def usual_shape(name: str, cells: Cells) -> tuple[int, ...]:
    """Return the shape that most cells have."""
    shapes = Counter(shape for shape in map(shape_of, cells) if shape is not None)
    if not shapes:
        raise BadInputError(f"Column {name!r} has no cell that is an array of numbers.")
    return shapes.most_common(1)[0][0]


def shape_of(cell: Any) -> tuple[int, ...] | None:
    """Return the shape of one cell, None where it is not an array of numbers."""
    try:
        array = np.asarray(cell)
    except ValueError:  # rows of different lengths
        return None
    return array.shape or (1,) if array.dtype.kind in "fiub" else None
