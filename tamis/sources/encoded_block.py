"""Rows of a table, encoded a block at a time; those that cannot be read are set apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch

from tamis.data import Samples
from tamis.sources.schema import Schema
from tamis.sources.schema.cells import text_of, texts_of
from tamis.sources.table_blocks import Block
from tamis.sources.validation import BAD_FIELDS, NO_LABEL, Validator


class Fault(NamedTuple):
    """A row that cannot be read, and why."""

    row: int
    reason: str
    detail: str = ""


class EncodedBlock:
    """A block of rows with their inputs, labels and names, to be taken apart into chunks."""

    def __init__(self, schema: Schema, block: Block) -> None:
        self.block = block
        rows = np.array(block.rows, np.int64)
        inputs = np.empty((0, 1), np.float32)
        kept = np.ones(len(rows), bool)
        broken: list[Fault] = []
        if block.rows:
            found = schema.read(block.columns)
            inputs = found.rows
            for name, places in found.unreadable.items():
                if schema[name].required:
                    broken += faults_of(schema, name, block, np.flatnonzero(places & kept))
                    kept &= ~places
        texts = texts_of(block.columns[schema.label])
        labelled = np.fromiter(map(bool, texts), bool, len(texts))
        self.faults = [
            *(Fault(row, BAD_FIELDS) for row in block.malformed),
            *(Fault(row, NO_LABEL) for row in rows[~labelled].tolist()),
            *(fault for fault in broken if labelled[block.rows.index(fault.row)]),
        ]
        kept &= labelled
        self.rows = rows[kept]
        self.inputs = torch.from_numpy(inputs[kept])
        self.labels = torch.from_numpy(schema.label_numbers(texts)[kept])
        names: Iterable[Any] = block.columns.get(schema.id, rows) if schema.id else block.rows
        self.names = list(compress(map(written, names), kept.tolist()))

    def parts(
        self, start: int, size: int, validator: Validator | None
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield chunks of so many row numbers; what cannot be read goes to the validator."""
        starts = np.arange(start, self.block.start + len(self.block), size)
        bounds = np.searchsorted(self.rows, [*starts, starts[-1] + size]).tolist()
        for first, low, high in zip(starts.tolist(), bounds, bounds[1:], strict=False):
            if validator:
                for row, reason, detail in self.faults:
                    if first <= row < first + size:
                        validator.reject([row], reason, detail)
            yield self._part(slice(low, high))

    def together(self, validator: Validator | None) -> tuple[Samples, list[str]]:
        """Return all rows, in the order of the block."""
        if validator:
            for row, reason, detail in self.faults:
                validator.reject([row], reason, detail)
        return self._part(slice(None))

    def _part(self, rows: slice) -> tuple[Samples, list[str]]:
        ids = torch.from_numpy(self.rows[rows].copy())
        inputs, labels = self.inputs[rows].clone(), self.labels[rows].clone()
        return Samples(inputs, labels, ids, torch.zeros_like(ids)), self.names[rows]


def faults_of(schema: Schema, name: str, block: Block, places: np.ndarray) -> list[Fault]:
    """Return why cells of a required column cannot be read."""
    column, cells, found = schema[name], block.columns[name], []
    for at in places.tolist():
        if error := column.fault(cells[at]):
            found.append(Fault(block.rows[at], error.reason, error.detail))
    return found


def written(cell: Any) -> str:
    """Return a cell as it was written."""
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, int) else text_of(cell)
