"""Tables of two lists of classes, whose cells are coloured by a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HOTTEST = 8
"""Colours of cells, beside none."""


@dataclass(frozen=True)
class Cell:
    """A cell: its text, how much it stands out, and whether both classes are the same."""

    text: str
    heat: int
    own: bool


@dataclass(frozen=True)
class Row:
    """A row of a table, with its name."""

    name: str
    cells: Sequence[Any]


@dataclass(frozen=True)
class HeatMap:
    """A coloured table. `sentence` describes a cell: its value, row and column are in braces.

    An empty cell has the value `empty` there.
    """

    caption: str
    names: Sequence[str]
    rows: Sequence[Row]
    sentence: str
    empty: str = "0"


def heat_of(value: float, hottest: float) -> int:
    """Return how much a value stands out beside the highest one."""
    return round(HOTTEST * min(1.0, value / hottest)) if hottest > 0 else 0
