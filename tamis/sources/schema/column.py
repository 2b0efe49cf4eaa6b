"""One column of a table: its name, its kind, and how its cells become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from tamis.sources.schema.cells import Cells

Part = Literal["numbers", "categories", "texts", "none"]
"""Where in an encoded row a column lies; `none` for one that is left out."""


@dataclass(frozen=True)
class Column:
    """A column by its name; its class is its kind, its fields are what the kind needs.

    `encode` returns `width` columns of floats without NaN, `decode` a readable value, None where
    it was missing. A cell that is there but cannot be read counts as missing; `unreadable` counts
    those, so that nothing changes in silence.
    """

    kind: ClassVar[str]
    part: ClassVar[Part]
    name: str

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column that cells of this kind were found in."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of an encoded row."""
        return ()

    def encode(self, cells: Cells) -> np.ndarray:
        """Return the cells as rows of `width` floats."""
        return np.empty((len(cells), 0), np.float32)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the readable value of one encoded row."""
        return None

    def unreadable(self, cells: Cells) -> int:
        """Return how many cells hold something that cannot be read as this kind."""
        return 0

    def missing_in(self, encoded: np.ndarray) -> int:
        """Return how many encoded rows were missing here, as far as they show it."""
        return int(encoded[:, -1].sum()) if getattr(self, "missing", False) else 0

    def note(self) -> str:
        """Return a few words on what was found."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return kind and fields as JSON."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the column with these fields; lists of JSON are tuples here."""
        return cls(**{name: as_tuple(value) for name, value in fields.items()})


def as_tuple(value: Any) -> Any:
    """Return lists, and lists in them, as tuples."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def flagged(values: np.ndarray, fills: tuple[float, ...], missing: bool) -> np.ndarray:
    """Return values with estimates in the place of NaN, and a flag in a last column if wanted.

    A row of which one value is NaN is missing.
    """
    absent = np.isnan(values[:, 0])
    filled = np.where(absent[:, None], np.array(fills, np.float64), values)
    parts = [filled, absent[:, None]] if missing else [filled]
    return np.concatenate(parts, axis=1).astype(np.float32)


def readable(number: float) -> str:
    """Return a number in as few digits as a single needs.

    >>> readable(np.float32(0.1)), readable(np.float32(3)), readable(1e20)
    ('0.1', '3', '1e+20')
    """
    short = np.float32(number)
    return str(int(short)) if short.is_integer() and abs(short) < 2**24 else str(short)
