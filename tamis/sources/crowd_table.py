"""Tables with a line for each label: who gave it, and which lines are about the same row."""

from __future__ import annotations

import numpy as np

from tamis.sources.annotator_column import AnnotatorColumn
from tamis.sources.schema.cells import Cells
from tamis.sources.table_blocks import Block, TableReader


class CrowdLines:
    """Numbers of annotators, and the first line of each row, of a table that was read once.

    Lines with the same id are about one row, which has the number of the first of them. Without a
    column of ids every line is a row of its own.
    """

    def __init__(
        self, reader: TableReader, annotator: str, id_column: str | None, size: int
    ) -> None:
        self.annotator = AnnotatorColumn(annotator)
        self.id = id_column
        self._first: dict[str, int] = {}
        for block in reader.blocks(size, [annotator, *([id_column] if id_column else [])]):
            for cell in block.columns.get(annotator, ()):
                self.annotator.number(cell)
            if id_column:
                for row, name in zip(block.rows, block.columns[id_column], strict=True):
                    self._first.setdefault(str(name), row)

    @property
    def names(self) -> list[str]:
        """Names of the annotators in the order of their numbers."""
        return list(self.annotator.numbers)

    def note(self, lines: int) -> str:
        """Return what was found, in a sentence without a full stop."""
        rows = len(self._first) if self.id else lines
        return f"{lines} labels of {rows} rows by {len(self.names)} annotators"

    def annotators_in(self, block: Block) -> np.ndarray:
        """Return the annotator of each line, -1 where none is named."""
        cells: Cells = block.columns[self.annotator.name or ""]
        found = map(self.annotator.number, cells)
        return np.array([-1 if number is None else number for number in found], np.int64)

    def rows_in(self, block: Block) -> np.ndarray:
        """Return the number of the row of each line."""
        if not self.id:
            return np.array(block.rows, np.int64)
        return np.array([self._first[str(name)] for name in block.columns[self.id]], np.int64)
