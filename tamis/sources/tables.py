"""A user's own table as a stream: a file or a frame, its columns by a schema.

A first reading finds the schema, the classes and the number of rows, a second one the scale of the
columns, and a third one, where a value is far beyond all others, the scale without it; a table that
fits into the sample of the first is not read again. Then rows are read in order, a chunk a slot,
and a file is never held in memory complete (except NPZ and JSON).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.label_order import LabelOrder, shuffled
from tamis.sources.schema import Schema, infer_schema
from tamis.sources.schema.cells import listed, text_of, texts_of
from tamis.sources.schema.labels import check_classes
from tamis.sources.schema.record import in_order
from tamis.sources.schema.sample import RowSample
from tamis.sources.table_blocks import Block, TableReader
from tamis.sources.table_files import open_reader
from tamis.sources.table_scale import measure_table
from tamis.sources.validation import BAD_FIELDS, NO_LABEL, BadInputError, Validator

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Table:
    """Labelled rows that were read once for their schema, ready to be read as a stream.

    Iterating yields `Samples`; `named` yields them with the names of their rows; `play` is the
    stream with a position, for a `TrainingRun`; `records` returns rows as they were written.

    Parameters
    ----------
    reader: reads the file or the frame.
    schema: what the columns are.
    rows_per_slot: rows of one chunk.
    validator: takes the rows that cannot be read.
    rows: number of rows, those included.
    mean, deviation: of each number of an encoded row; 0 and 1 for codes and n-grams.
    drop: columns left out by name.
    missing: by column, cells that were estimated, or have the code for missing.
    unreadable: by column, cells that hold something else than its kind, taken as missing.
    label_counts: how many rows each class has.
    sample: encoded rows, spread over the table.
    grouped: whether the file is sorted by label, or nearly; it is then read in random order.
    """

    reader: TableReader
    schema: Schema
    rows_per_slot: int
    validator: Validator
    rows: int
    mean: Tensor
    deviation: Tensor
    drop: tuple[str, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    label_counts: Mapping[str, int] = field(default_factory=dict)
    sample: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    grouped: bool = False

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.reader.name

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of their numbers."""
        return self.schema.classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of inputs."""
        return self.schema.input_shape

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an encoded row, where it is flat."""
        return self.schema.names if len(self.input_shape) == 1 else ()

    @property
    def digest(self) -> str:
        """Checksum of the content."""
        return self.reader.digest

    def __len__(self) -> int:
        return -(-self.rows // self.rows_per_slot)

    def play(self) -> Playback:
        """Return the table as a stream with a position."""
        return Playback(self)

    def __iter__(self) -> Iterator[Samples]:
        for samples, _ in self.named(self.rows_per_slot, self.validator):
            yield samples

    def named(
        self, size: int = BLOCK_ROWS, validator: Validator | None = None, skip: int = 0
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield samples and the names of their rows; rows that cannot be read go to the validator.

        The first `skip` chunks are left out, as rows that were read before.
        """
        per_block = max(BLOCK_ROWS // size, 1) * size
        for block in self.reader.blocks(per_block, self._names):
            if not len(block) or block.start + len(block) <= skip * size:
                continue
            encoded = EncodedBlock(self.schema, block)
            yield from encoded.parts(max(block.start, skip * size), size, validator)

    def records(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return rows by number as they were written, all columns as text."""
        wanted, found = set(rows), {}
        for block in self.reader.blocks(BLOCK_ROWS, self._names):
            for at, row in enumerate(block.rows):
                if row in wanted:
                    cells = block.columns.items()
                    found[row] = {name: written(column[at]) for name, column in cells}
            if len(found) == len(wanted):
                break
        return found

    @property
    def _names(self) -> list[str]:
        return [*(column.name for column in self.schema.columns), self.schema.label]


class EncodedBlock:
    """A block of rows with their inputs, labels and names, to be taken apart into chunks."""

    def __init__(self, schema: Schema, block: Block) -> None:
        self.block = block
        inputs = schema.encode(block.columns) if block.rows else np.empty((0, 1), np.float32)
        texts = texts_of(block.columns[schema.label])
        rows = np.array(block.rows, np.int64)
        labelled = np.fromiter(map(bool, texts), bool, len(texts))
        self.unlabelled = rows[~labelled].tolist()
        self.rows = rows[labelled]
        self.inputs = torch.from_numpy(inputs[labelled])
        self.labels = torch.from_numpy(schema.label_numbers(texts)[labelled])
        names: Iterable[Any] = block.columns.get(schema.id, rows) if schema.id else block.rows
        self.names = list(compress(map(written, names), labelled.tolist()))

    def parts(
        self, start: int, size: int, validator: Validator | None
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield chunks of so many row numbers; what cannot be read goes to the validator."""
        starts = np.arange(start, self.block.start + len(self.block), size)
        bounds = np.searchsorted(self.rows, [*starts, starts[-1] + size]).tolist()
        for first, low, high in zip(starts.tolist(), bounds, bounds[1:], strict=False):
            if validator:
                for rows, reason in (
                    (self.block.malformed, BAD_FIELDS),
                    (self.unlabelled, NO_LABEL),
                ):
                    if rows:
                        validator.reject([r for r in rows if first <= r < first + size], reason)
            ids = torch.from_numpy(self.rows[low:high].copy())
            inputs, labels = self.inputs[low:high].clone(), self.labels[low:high].clone()
            yield Samples(inputs, labels, ids, torch.zeros_like(ids)), self.names[low:high]


class Playback:
    """A table as a stream with a position: the number of chunks read, one a slot."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.offset = 0

    def seek(self, offset: int) -> None:
        """Continue after so many chunks."""
        self.offset = int(offset)

    def named(self) -> Iterator[tuple[Samples, list[str] | None]]:
        """Yield samples, and the ids of their rows as text where the table has a column of them."""
        table = self.table
        if table.grouped:
            chunks = shuffled(table.named(validator=table.validator), table.rows_per_slot)
            rest: Iterator[tuple[Samples, list[str]]] = islice(chunks, self.offset, None)
        else:
            rest = table.named(table.rows_per_slot, table.validator, self.offset)
        for samples, names in rest:
            self.offset += 1
            yield samples, names if table.schema.id else None

    def acknowledge(self) -> None:
        """Do nothing: a file stays as it is."""

    def close(self) -> None:
        """Do nothing: a file is not waited for."""


def open_table(
    table: Any,
    label: str,
    validator: Validator,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows_per_slot: int = 10,
    kinds: Mapping[str, str] | None = None,
    schema: Schema | None = None,
) -> Table:
    """Return a table after a reading for its schema, or a check against one that is given.

    Parameters
    ----------
    table: a file, a frame of pandas, Polars or pyarrow, a list of records, or columns by name.
    label: column of the labels.
    validator: takes the rows that cannot be read.
    id_column: column that identifies the rows.
    drop: columns to leave out.
    rows_per_slot: rows of one chunk.
    kinds: kinds of columns by name, in place of those found out.
    schema: schema that the table must fit, as that of the training table for a test table.
    """
    expected = [label, *drop, *([id_column] if id_column else [])]
    known = [column.name for column in schema.inputs] if schema else []
    reader = open_reader(table, [*expected, *known], drop)
    first = FirstReading(reader, label, expected)
    if schema:
        schema.check(first.names, reader.name)
        unknown = sorted(set(first.labels) - set(schema.classes))
        if unknown:
            raise BadInputError(f"{reader.name} has labels never trained on: {listed(unknown)}.")
    else:
        check_classes(reader.name, label, first.labels, first.rows)
        left = {label, id_column, *drop}
        declared = {name: kind for name, kind in reader.kinds.items() if name not in left}
        schema = infer_schema(
            first.sample.columns(), label=label, classes=in_order(first.labels), id=id_column,
            kinds=declared | dict(kinds or {}), drop=drop,
        )  # fmt: skip
    held = first.sample.blocks if first.sample.complete else None
    measured = measure_table(
        schema, lambda: held or (b.columns for b in reader.blocks(BLOCK_ROWS, first.names))
    )
    return Table(
        reader, schema, rows_per_slot, validator, first.rows, measured.mean, measured.deviation,
        tuple(drop), measured.missing, measured.unreadable, first.labels,
        sample_of(schema, first.sample), first.order.grouped(first.labels),
    )  # fmt: skip


class FirstReading:
    """Names, labels, number of rows and a sample of a table."""

    def __init__(self, reader: TableReader, label: str, expected: Sequence[str]) -> None:
        self.rows = 0
        self.labels: Counter[str] = Counter()
        self.order = LabelOrder()
        self.sample = RowSample()
        self.names: list[str] = []
        for block in reader.blocks(BLOCK_ROWS):
            self.names = list(dict.fromkeys([*self.names, *block.columns]))
            self.rows += len(block)
            if block.rows:
                cells = block.columns.get(label, ())
                if isinstance(cells, np.ndarray) and cells.ndim > 1:
                    raise BadInputError(
                        f"{reader.name}: {label!r} must be a flat array, one label for each row."
                    )
                texts = texts_of(cells)
                self.labels.update(texts)
                self.order.update(texts)
                self.sample.update(block.columns)
        self.labels.pop("", None)
        for name in expected:
            if name not in self.names:
                has = listed(self.names)
                raise BadInputError(f"{reader.name} has no column {name!r}; it has {has}.")
        if not set(self.names) - set(expected):
            raise BadInputError(f"{reader.name} has no column of inputs beside {label!r}.")
        if not self.labels:
            raise BadInputError(f"{reader.name} holds no labelled row.")


def sample_of(schema: Schema, sample: RowSample) -> Tensor:
    """Return some encoded rows; none of pictures, which are scaled as one."""
    if len(schema.input_shape) > 1:
        return torch.empty(0, 0)
    return torch.from_numpy(schema.encode(sample.columns()))


def written(cell: Any) -> str:
    """Return a cell as it was written."""
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, int) else text_of(cell)
