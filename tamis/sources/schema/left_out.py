"""Columns that are not inputs: ids, and those of which every cell is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import Cells, texts_of
from tamis.sources.schema.column import Column, Part


@dataclass(frozen=True)
class Id(Column):
    """Another value in every row: a model could only learn the rows by heart."""

    kind: ClassVar[str] = "id"
    part: ClassVar[Part] = "none"

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column."""
        return cls(name)

    def note(self) -> str:
        """Return that it is left out."""
        return "left out"


@dataclass(frozen=True)
class Constant(Column):
    """The same in every row, or empty in every row."""

    kind: ClassVar[str] = "constant"
    part: ClassVar[Part] = "none"
    value: str = ""

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with its value."""
        return cls(name, next(filter(None, texts_of(cells)), ""))

    def unreadable(self, values: np.ndarray, cells: Cells) -> np.ndarray:
        """Return which cells hold another value."""
        return np.array([text != self.value for text in texts_of(cells)], bool)

    def note(self) -> str:
        """Return the value."""
        return f"left out, always {self.value[:20]!r}" if self.value else "left out, always empty"
