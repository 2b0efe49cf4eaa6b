"""Cells of a table whose colour follows a share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HOTTEST = 5


@dataclass(frozen=True)
class Cell:
    """A cell of a table of confusion, how much it stands out, and whether both are one class."""

    text: str
    heat: int
    own: bool


@dataclass(frozen=True)
class Row:
    """A row of a table, with its name."""

    name: str
    cells: Sequence[Any]
