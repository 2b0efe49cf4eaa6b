"""A bounded number of a table's rows, spread over all of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from tamis.sources.schema.cells import Cells

MOST_ROWS = 50_000
MOST_CELLS = 2_000_000


class RowSample:
    """Every row of a table up to a bound; beyond it every second, then every fourth, and so on.

    No random number is drawn: the same table gives the same rows.
    """

    def __init__(self, most_rows: int = MOST_ROWS, most_cells: int = MOST_CELLS) -> None:
        self.most_rows = most_rows
        self.most_cells = most_cells
        self.step = 1
        self.blocks: list[dict[str, Cells]] = []
        self._seen = 0
        self._kept: list[int] = []

    @property
    def complete(self) -> bool:
        """Whether all rows are among the sample."""
        return self.step == 1

    def update(self, columns: Mapping[str, Cells]) -> None:
        """Add the rows of a block."""
        rows = len(next(iter(columns.values()), ()))
        first = -self._seen % self.step
        self._seen += rows
        self._add({name: cells[first :: self.step] for name, cells in columns.items()})
        most = min(self.most_rows, self.most_cells // max(len(columns), 1))
        while sum(self._kept) > max(most, 1):
            self._thin()

    def columns(self) -> dict[str, Cells]:
        """Return the rows kept, as columns; one that a block lacks is missing there."""
        names = dict.fromkeys(name for block in self.blocks for name in block)
        return {name: joined(self._parts(name)) for name in names}

    def _parts(self, name: str) -> list[Cells]:
        pairs = zip(self.blocks, self._kept, strict=True)
        return [block.get(name, [None] * rows) for block, rows in pairs]

    def _add(self, block: dict[str, Cells]) -> None:
        self.blocks.append(block)
        self._kept.append(len(next(iter(block.values()), ())))

    def _thin(self) -> None:
        blocks, kept, at = self.blocks, self._kept, 0
        self.blocks, self._kept = [], []
        for block, rows in zip(blocks, kept, strict=True):
            self._add({name: cells[at % 2 :: 2] for name, cells in block.items()})
            at += rows
        self.step *= 2


def joined(parts: list[Cells]) -> Cells:
    """Return parts of a column as one: an array where all are of one kind of numbers."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    lists: list[list[Any]] = [
        part.tolist() if isinstance(part, np.ndarray) else list(part) for part in parts
    ]
    return list(chain.from_iterable(lists))
