"""One column of a table: its name, its kind, and how its cells become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

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
    name: str

    missing = 0.0
    """Share of cells that were missing when the schema was learned."""

    @property
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
