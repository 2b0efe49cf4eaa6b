"""One column of a table: its name, its kind, and how its cells become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from tamis.sources.protocol import BadRecordError
from tamis.sources.schema.cells import Cells, unread

Part = Literal["numbers", "categories", "texts", "none"]
"""Where in an encoded row a column lies; `none` for one that is left out."""


FLAG_FROM = 0.01
"""Share of missing cells from which on a column has a flag."""


@dataclass(frozen=True)
class Column:
    """A column by its name; its class is its kind, its fields are what the kind needs.

    `encode` returns `width` columns of floats without NaN, in two steps: `read` finds values, NaN
    where there is none, and `fill` puts estimates and flags there. `decode` returns a readable
    value, None where it was missing. A cell that holds something else than its kind counts as
    missing; `unreadable` finds those, so that nothing changes in silence.
    """

    kind: ClassVar[str]
    part: ClassVar[Part]
    required: ClassVar[bool] = False
    """Whether a row is rejected where the cell cannot be read."""
    name: str

    missing = 0.0
    """Share of cells that were missing when the schema was learned."""

    @property
    def flagged(self) -> bool:
        """Whether a flag stands beside the value: not for a few gaps, to keep rows short."""
        return self.missing >= FLAG_FROM

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column that cells of this kind were found in."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return len(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an encoded row of this column alone."""
        return (self.width,)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of an encoded row."""
        return ()

    def read(self, cells: Cells) -> np.ndarray:
        """Return the values of the cells, a row each; a first value of NaN is a missing row."""
        return np.empty((len(cells), 0), np.float32)

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return values as rows of `width` floats without NaN."""
        return values

    def encode(self, cells: Cells) -> np.ndarray:
        """Return the cells as rows of `width` floats."""
        return self.fill(self.read(cells))

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the readable value of one encoded row."""
        return None

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return which rows of what was read are missing."""
        return np.isnan(values[:, 0]) if values.shape[1] else np.zeros(len(values), bool)

    def unreadable(self, values: np.ndarray, cells: Cells) -> np.ndarray:
        """Return which cells hold something that could not be read as this kind."""
        if values.shape[1] and np.isnan(values[:, 0]).any():
            return unread(values[:, 0], cells)
        return np.zeros(len(cells), bool)

    def fault(self, cell: Any) -> BadRecordError | None:
        """Return why a cell of a required column cannot be read; None where it can."""
        return None

    def note(self) -> str:
        """Return a few words on what was found."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return kind and fields as JSON."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the column with these fields; lists of JSON are tuples here."""
        column = cls(**{name: as_tuple(value) for name, value in fields.items()})
        for name, value in asdict(column).items():
            wanted = type(getattr(cls, name, ""))
            if not isinstance(value, (float, int) if wanted is float else wanted):
                raise TypeError(f"{name} is {value!r}")
        return column


def as_tuple(value: Any) -> Any:
    """Return lists, and lists in them, as tuples."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def share_missing(values: np.ndarray) -> float:
    """Return the share of NaN."""
    return float(np.isnan(values).mean()) if len(values) else 0.0


def with_estimates(values: np.ndarray, fills: tuple[float, ...], flag: bool) -> np.ndarray:
    """Return values with estimates in the place of NaN, and a flag in a last column if wanted.

    A row whose first value is NaN is missing.
    """
    absent = np.isnan(values[:, 0])
    filled = np.where(absent[:, None], np.array(fills, np.float64), values)
    parts = [filled, absent[:, None]] if flag else [filled]
    return np.concatenate(parts, axis=1).astype(np.float32)


def readable(number: float) -> str:
    """Return a number in as few digits as a single needs.

    >>> readable(np.float32(0.1)), readable(np.float32(3)), readable(1e20)
    ('0.1', '3', '1e+20')
    """
    short = np.float32(number)
    return str(int(short)) if short.is_integer() and abs(short) < 2**24 else str(short)
