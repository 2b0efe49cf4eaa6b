"""The columns in which a row differs from its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.sources.schema import Array, Column, Schema, Text

FEWEST = 2
"""Neighbours that a row is compared with, at the least."""
MARGIN = 0.5
"""How far beyond the range of its neighbours a number lies, in parts of that range."""


def differing(
    schema: Schema | None,
    rows: Sequence[Mapping[str, Any]],
    own: np.ndarray,
    near: np.ndarray,
) -> list[list[str]]:
    """Return for each row the columns in which it differs from its neighbours.

    A number or a date differs where it lies beyond the range of the neighbours by half that range,
    a category where no neighbour has it, and any cell where it alone is missing, or alone is there.
    Free text always differs, and is compared for gaps only.

    Parameters
    ----------
    schema: what the columns are; without one, all that hold floats are numbers
    rows: cells by column, of all rows that are compared
    own: places in `rows` of the rows to return columns for, (n,)
    near: places of their neighbours, -1 where there is none, (n, neighbours)
    """
    found: list[list[str]] = [[] for _ in own.tolist()]
    if not near.size:
        return found
    valid = near >= 0
    enough = valid.sum(axis=1) >= FEWEST
    known = {column.name: column for column in schema.columns} if schema else {}
    names = list(known) or list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        cells = [row.get(name) for row in rows]
        absent = np.array([cell in (None, "") for cell in cells])
        others = np.where(valid, absent[near], ~absent[own][:, None])
        gap = (others != absent[own][:, None]).all(axis=1)
        beyond = is_beyond(known.get(name), cells, absent, own, np.where(valid, near, own[:, None]))
        for at in np.flatnonzero(enough & (gap | beyond)).tolist():
            found[at].append(name)
    return found


def is_beyond(
    column: Column | None,
    cells: Sequence[Any],
    absent: np.ndarray,
    own: np.ndarray,
    near: np.ndarray,
) -> np.ndarray:
    """Return which rows hold a value that their neighbours do not come near to."""
    if isinstance(column, Text | Array) or (column and column.part == "none"):
        return np.zeros(len(own), bool)
    if column and column.part == "categories":
        values: dict[Any, int] = {}
        codes = np.empty(len(cells), np.int64)
        for at, cell in enumerate(cells):
            codes[at] = values.setdefault(cell, len(values))
        shared = (codes[near] == codes[own][:, None]) & (near != own[:, None])
        found: np.ndarray = ~shared.any(axis=1) & ~absent[own]
        return found
    numbers = column.read([cell or "" for cell in cells])[:, 0] if column else as_floats(cells)
    others = np.where(near == own[:, None], np.nan, numbers[near])
    low = np.where(np.isnan(others), np.inf, others).min(axis=1)
    high = np.where(np.isnan(others), -np.inf, others).max(axis=1)
    some = low <= high
    low, high = np.where(some, low, 0.0), np.where(some, high, 0.0)
    margin, value = MARGIN * (high - low), numbers[own]
    return np.asarray(some & ((value < low - margin) | (value > high + margin)))


def as_floats(cells: Sequence[Any]) -> np.ndarray:
    """Return cells that are floats, and NaN for any other."""
    return np.array([cell if isinstance(cell, float) else np.nan for cell in cells], np.float64)
