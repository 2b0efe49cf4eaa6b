"""Columns of arrays: a picture, or a list of numbers, in every cell."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import LARGEST, Cells
from tamis.sources.schema.column import FLAG_FROM, Column, Part
from tamis.sources.validation import BadInputError


@dataclass(frozen=True)
class Array(Column):
    """Numbers of one shape in every cell.

    In a list, a missing number becomes its median; numbers that are often missing have a flag at
    the end. In a picture it is left, and the row is refused.
    """

    kind: ClassVar[str] = "array"
    part: ClassVar[Part] = "numbers"
    shape: tuple[int, ...] = (1,)
    medians: tuple[float, ...] = ()
    flags: tuple[int, ...] = ()

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with the shape of its cells."""
        found = stacked(name, cells)
        shape = found.shape[1:]
        absent = ~(np.abs(found) <= LARGEST)
        if len(shape) > 1 or not absent.any():
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
        """Return the numbers of each cell in one row."""
        found = stacked(self.name, cells)
        if found.shape[1:] != self.shape:
            raise BadInputError(
                f"Column {self.name!r} has arrays of shape {found.shape[1:]}, not {self.shape}."
            )
        return found.reshape(len(found), prod(self.shape))

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers, and the flags."""
        if self.medians:
            absent = ~(np.abs(values) <= LARGEST)
            values = np.where(absent, np.array(self.medians), values)
            values = np.concatenate([values, absent[:, list(self.flags)]], axis=1)
        with np.errstate(over="ignore"):
            return values.astype(np.float32)

    def unreadable(self, values: np.ndarray, cells: Cells) -> np.ndarray:
        """Return that every cell was read: else their shapes differ, which is an error."""
        return np.zeros(len(cells), bool)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the shape: an array is for a picture, not for a cell of a page."""
        return f"(array of {' x '.join(map(str, self.shape))})"

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return in which rows some number is missing."""
        return np.asarray(~(np.abs(values) <= LARGEST).all(axis=1), bool)

    def note(self) -> str:
        """Return the shape."""
        return " x ".join(map(str, self.shape))


def stacked(name: str, cells: Cells) -> np.ndarray:
    """Return the arrays of all cells as one; raise where their shapes differ."""
    try:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
            found = cells
        else:
            found = np.array([np.asarray(cell, np.float64) for cell in cells], np.float64)
    except (TypeError, ValueError):
        raise BadInputError(f"Column {name!r} has cells that are no arrays of one shape.") from None
    return found.reshape(len(found), -1) if found.ndim < 2 else found
