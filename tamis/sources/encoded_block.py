"""Rows of a table, encoded a block at a time; those that cannot be read are set apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch

from tamis.data import UNLABELLED, Samples
from tamis.sources.crowd_table import CrowdLines
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
    """A block of rows with their inputs, labels and names, to be taken apart into chunks.

    Of a `crowd`, lines have the number of their row, and that of their annotator.
    """

    def __init__(self, schema: Schema, block: Block, crowd: CrowdLines | None = None) -> None:
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
        self.faults = [*(Fault(row, BAD_FIELDS) for row in block.malformed), *broken]
        self.rows = rows[kept]
        self.inputs = torch.from_numpy(inputs[kept])
        self.labels = torch.from_numpy(schema.label_numbers(texts)[kept])
        names: Iterable[Any] = block.columns.get(schema.id, rows) if schema.id else block.rows
        self.names = list(compress(map(written, names), kept.tolist()))
        self.ids = (rows if crowd is None else crowd.rows_in(block))[kept]
        self.annotators = None if crowd is None else crowd.annotators_in(block)[kept]

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
            yield self._part(slice(low, high), validator)

    def together(self, validator: Validator | None) -> tuple[Samples, list[str]]:
        """Return all rows, in the order of the block."""
        if validator:
            for row, reason, detail in self.faults:
                validator.reject([row], reason, detail)
        return self._part(slice(None), validator)

    def _part(self, rows: slice, validator: Validator | None) -> tuple[Samples, list[str]]:
        """Return some rows; those without a label only where the validator takes them."""
        ids = torch.from_numpy(self.ids[rows].copy())
        inputs, labels = self.inputs[rows].clone(), self.labels[rows].clone()
        who = None if self.annotators is None else torch.from_numpy(self.annotators[rows].copy())
        samples = Samples(inputs, labels, ids, torch.zeros_like(ids), annotators=who)
        names = self.names[rows]
        kept = labels != UNLABELLED
        if kept.all() or (validator and validator.unlabelled):
            return samples, names
        if validator:
            validator.reject(ids[~kept].tolist(), NO_LABEL)
        return samples[kept], list(compress(names, kept.tolist()))


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
