"""A user's own table as a stream: a file or a frame, its columns by a schema.

A first reading finds the schema, the classes and the number of rows, a second one the scale of the
columns, and a third one, where a value is far beyond all others, the scale without it; a table that
fits into the sample of the first is not read again. Then rows are read in order, a chunk a slot,
and a file is never held in memory complete (except NPZ and JSON).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Any

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.crowd_table import CrowdLines
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
from tamis.sources.schema import Schema
from tamis.sources.table_blocks import RandomAccess, TableReader
from tamis.sources.table_files import open_reader
from tamis.sources.table_schema import label_of, learn_schema, sample_of
from tamis.sources.validation import Validator

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
    left_out: columns that are not inputs, because a picture or a text is the only one.
    notes: what was found out about it, to be printed.
    crowd: who gave the labels, where a column names annotators.
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
    crowd: CrowdLines | None = None

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
    def unlabelled(self) -> int:
        """Number of rows without a label, those included that cannot be read."""
        return self.rows - sum(self.label_counts.values())

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
            encoded = EncodedBlock(self.schema, block, self.crowd)
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
            yield EncodedBlock(self.schema, block, self.crowd).together(self.validator)

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
        names = [*(column.name for column in self.schema.columns), self.schema.label]
        return names if self.crowd is None else [*names, self.crowd.annotator.name or ""]


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

    @property
    def annotator_names(self) -> list[str]:
        """Names of annotators in the order of their numbers."""
        return self.table.crowd.names if self.table.crowd else []

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
    annotator: str | None = None,
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
    table: a file, folder of pictures, data set of Hugging Face, frame, records, or columns by name.
    label: column of the labels; None where the table declares it.
    validator: takes the rows that cannot be read.
    id_column: column that identifies the rows.
    annotator: column that names who gave the label; lines of one id are then labels of one row.
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
    given = (label, id_column, annotator, text, *drop, *known)
    reader = open_reader(table, [name for name in given if name], drop)
    label = label or (schema.label if schema else None) or label_of(reader)
    id_column = id_column or reader.id
    drop = [*drop, *([annotator] if annotator else [])]
    expected = [label, *drop, *([id_column] if id_column else [])]
    first = FirstReading(reader, label, expected, progress)
    files = PictureFiles(reader.folder, KEPT_BYTES)
    if schema:
        first.check(schema)
    schema = (schema or learn_schema(
        first, files, dict(kinds or {}), id_column=id_column, drop=drop, text=text,
        encoder=encoder, side=side,
    )).located(files)  # fmt: skip
    measured = measure(schema, first, reader, progress)
    used = [*(column.name for column in schema.columns), *expected]
    return Table(
        reader, schema, rows_per_slot, validator, first.rows, measured.mean, measured.deviation,
        tuple(drop), measured.missing, measured.unreadable, first.labels,
        sample_of(schema, first.sample),
        first.order.grouped(first.labels) or isinstance(reader, PictureFolder),
        tuple(name for name in first.names if name not in used),
        (*reader.notes, *absent_pictures(schema, first.sample, reader)),
        CrowdLines(reader, annotator, id_column, BLOCK_ROWS) if annotator else None,
    )  # fmt: skip
