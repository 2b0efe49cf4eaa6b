"""A user's own table as a stream: a file or a frame, its columns by a schema.

A first reading finds the schema, the classes and the number of rows, a second one the scale of the
columns, and a third one, where a value is far beyond all others, the scale without it; a table that
fits into the sample of the first is not read again. Then rows are read in order, a chunk a slot,
and a file is never held in memory complete (except NPZ and JSON).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from typing import Any

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.encoded_block import EncodedBlock, written
from tamis.sources.first_reading import (
    BLOCK_ROWS,
    FirstReading,
    RowProgress,
    absent_pictures,
    measure,
)
from tamis.sources.label_order import shuffled
from tamis.sources.picture_folder import PictureFolder
from tamis.sources.pictures import PictureFiles
from tamis.sources.schema import Schema, infer_schema
from tamis.sources.schema.cells import listed
from tamis.sources.schema.encoded_text import EncodedText
from tamis.sources.schema.labels import check_classes
from tamis.sources.schema.record import in_order
from tamis.sources.schema.sample import RowSample
from tamis.sources.schema.text import Text
from tamis.sources.table_blocks import RandomAccess, TableReader
from tamis.sources.table_files import open_reader
from tamis.sources.validation import BadInputError, Validator

BLOCK_BYTES = 2**25
"""Bytes of a block of pictures, of which there are then fewer rows."""
LONGEST_PATH = 1024
KEPT_BYTES = 2**28
"""Bytes of decoded pictures that are kept, so that a file is not decoded at every reading."""


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
    left_out: columns that are no inputs, because a picture or a text is the only one.
    notes: what was found out about it, to be printed.
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
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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

    @property
    def has_pictures(self) -> bool:
        """Whether rows are pictures in files."""
        return any(column.kind == "image" for column in self.schema.columns)

    @property
    def block_rows(self) -> int:
        """Rows of a block: fewer of pictures."""
        if not self.has_pictures:
            return BLOCK_ROWS
        return max(1, min(BLOCK_ROWS, BLOCK_BYTES // prod(self.input_shape)))

    def __len__(self) -> int:
        return -(-self.rows // self.rows_per_slot)

    def play(self) -> Playback:
        """Return the table as a stream with a position."""
        return Playback(self)

    def __iter__(self) -> Iterator[Samples]:
        for samples, _ in self.named(self.rows_per_slot, self.validator):
            yield samples

    def named(
        self, size: int | None = None, validator: Validator | None = None, skip: int = 0
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield samples and the names of their rows; rows that cannot be read go to the validator.

        The first `skip` chunks are left out, as rows that were read before.
        """
        size = size or self.block_rows
        per_block = max(self.block_rows // size, 1) * size
        for block in self.reader.blocks(per_block, self._names):
            if not len(block) or block.start + len(block) <= skip * size:
                continue
            encoded = EncodedBlock(self.schema, block)
            yield from encoded.parts(max(block.start, skip * size), size, validator)

    def in_random_order(self, skip: int) -> Iterator[tuple[Samples, list[str]]]:
        """Yield all rows, a chunk at a time, in a random order that is always the same."""
        reader = self.reader
        if not self.has_pictures or not isinstance(reader, RandomAccess):
            chunks = shuffled(self.named(validator=self.validator), self.rows_per_slot)
            yield from islice(chunks, skip, None)
            return
        # A row at a time where it lies: pictures need not be in memory all at once.
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(0))
        for rows in order.split(self.rows_per_slot)[skip:]:
            block = reader.take(rows.tolist())
            yield EncodedBlock(self.schema, block).together(self.validator)

    def records(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return rows by number as they were written, all columns as text; of pictures, paths."""
        wanted, found = set(rows), {}
        pictures = {c.name for c in self.schema.columns if c.kind in ("array", "image")}
        for block in self.reader.blocks(BLOCK_ROWS, self._names):
            for at, row in enumerate(block.rows):
                if row in wanted:
                    found[row] = {
                        name: written(column[at])
                        for name, column in block.columns.items()
                        if name not in pictures or is_path(column[at])
                    }
            if len(found) == len(wanted):
                break
        return found

    @property
    def _names(self) -> list[str]:
        return [*(column.name for column in self.schema.columns), self.schema.label]


def is_path(cell: Any) -> bool:
    """Return whether a picture is named in a cell, not held in it."""
    return isinstance(cell, str) and len(cell) <= LONGEST_PATH


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
            rest = table.in_random_order(self.offset)
        else:
            rest = table.named(table.rows_per_slot, table.validator, self.offset)
        for samples, names in rest:
            self.offset += 1
            yield samples, names if table.schema.id else None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.rows

    def records(self, rows: Collection[int]) -> dict[int, dict[str, str]]:
        """Return rows by number as they were written, all columns as text."""
        return self.table.records(rows)

    def acknowledge(self) -> None:
        """Do nothing: a file stays as it is."""

    def close(self) -> None:
        """Do nothing: a file is not waited for."""


def open_table(
    table: Any,
    label: str | None,
    validator: Validator,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows_per_slot: int = 10,
    kinds: Mapping[str, str] | None = None,
    text: str | None = None,
    encoder: str | None = None,
    side: int | None = None,
    schema: Schema | None = None,
    progress: RowProgress = lambda rows: None,
) -> Table:
    """Return a table after a reading for its schema, or a check against one that is given.

    Parameters
    ----------
    table: a file, a folder of pictures, a data set of Hugging Face by its folder or as hf:NAME, a
        frame of pandas, Polars or pyarrow, a list of records, or columns by name.
    label: column of the labels; None where the table declares it.
    validator: takes the rows that cannot be read.
    id_column: column that identifies the rows.
    drop: columns to leave out.
    rows_per_slot: rows of one chunk.
    kinds: kinds of columns, in place of those found out; a label of kind category is not checked.
    text: column of text that is the only input, beside those that `kinds` names.
    encoder: model of Hugging Face, by its folder or name, that encodes the text.
    side: pixels of the side of pictures, in place of what fits them.
    schema: schema that the table must fit, as that of the training table for a test table.
    progress: called with the number of rows read so far, in each of the readings.
    """
    known = [column.name for column in schema.inputs] if schema else []
    given = [name for name in (label, id_column, text, *drop) if name]
    reader = open_reader(table, [*given, *known], drop)
    label = label or (schema.label if schema else None) or label_of(reader)
    id_column = id_column or reader.id
    expected = [label, *drop, *([id_column] if id_column else [])]
    first = FirstReading(reader, label, expected, progress)
    files = PictureFiles(reader.folder, KEPT_BYTES)
    if schema:
        first.check(schema)
    else:
        schema = learn_schema(
            first, files, dict(kinds or {}), id_column=id_column, drop=drop, text=text,
            encoder=encoder, side=side,
        )  # fmt: skip
    schema = schema.located(files)
    measured = measure(schema, first, reader, progress)
    known = [column.name for column in schema.columns]
    return Table(
        reader, schema, rows_per_slot, validator, first.rows, measured.mean, measured.deviation,
        tuple(drop), measured.missing, measured.unreadable, first.labels,
        sample_of(schema, first.sample),
        first.order.grouped(first.labels) or isinstance(reader, PictureFolder),
        tuple(name for name in first.names if name not in (*known, *expected)),
        (*reader.notes, *absent_pictures(schema, first.sample, reader)),
    )  # fmt: skip


def learn_schema(
    first: FirstReading,
    files: PictureFiles,
    kinds: dict[str, str],
    *,
    id_column: str | None,
    drop: Sequence[str],
    text: str | None,
    encoder: str | None,
    side: int | None,
) -> Schema:
    """Return the schema of a table that was read once; raise where its labels are no classes."""
    label, reader = first.label, first.reader
    if kinds.pop(label, None) != "category":
        check_classes(reader.name, label, first.labels, first.rows)
    left = [label, *drop]
    if text:
        kinds.setdefault(text, "text")
        left += [name for name in first.names if name not in (*kinds, id_column)]
    declared = {
        name: kind
        for name, kind in reader.kinds.items()
        # The id is an input only where it is the path of a picture.
        if name not in left and (name != id_column or kind == "image")
    }
    columns = first.sample.columns()
    schema = infer_schema(
        columns, label=label, classes=in_order(first.labels), id=id_column,
        kinds=declared | kinds, drop=left, pictures=files, side=side,
    )  # fmt: skip
    if encoder and text:
        return replace(schema, columns=(EncodedText.infer(text, columns[text], encoder),))
    if text and schema[text].kind == "text" and len(schema.inputs) == 1:
        return replace(schema, columns=(Text.infer(text, columns[text], alone=True),))
    return schema


def label_of(reader: TableReader) -> str:
    """Return the column of labels that a table declares; raise where it declares none."""
    if isinstance(reader, PictureFolder):
        reader.check_classes()
    if reader.label:
        return reader.label
    names = next(iter(reader.blocks(1))).columns
    raise BadInputError(
        f"{reader.name}: name the column of labels (--label); there are {listed(names)}."
    )


def sample_of(schema: Schema, sample: RowSample) -> Tensor:
    """Return some encoded rows; none of pictures, which are scaled as one."""
    if len(schema.input_shape) > 1:
        return torch.empty(0, 0)
    return torch.from_numpy(schema.encode(sample.columns()))
