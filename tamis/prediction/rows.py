"""Rows of a table that a model is to predict: encoded by its schema, each in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tamis.sources.encoded_block import written
from tamis.sources.first_reading import BLOCK_ROWS
from tamis.sources.picture_folder import PictureFolder
from tamis.sources.pictures import PictureFiles
from tamis.sources.schema import Array, Schema
from tamis.sources.schema.cells import Cells, text_of, texts_of
from tamis.sources.schema.record import Reading
from tamis.sources.table_blocks import Block, TableReader
from tamis.sources.table_files import FrameReader, open_reader
from tamis.sources.validation import BAD_FIELDS, NOT_FINITE, BadInputError

MOST_NUMBERS = 2**23
"""Numbers of the rows that are encoded at a time."""


@dataclass(frozen=True)
class EncodedRows:
    """Some rows of a table in order; what could not be read keeps its place.

    Parameters
    ----------
    numbers: number of each row, from 0.
    ids: id of each row as text, its number where the table has no column of ids.
    named: whether the ids are of such a column.
    inputs: encoded rows, those that could not be read left out.
    places: place among `numbers` of each of the inputs.
    reasons: by place, why a row could not be read.
    labels: text of each label, empty where there is none; None where there is no such column.
    unreadable: by column, ids of the rows whose cell counts as missing although something is in it.
    """

    numbers: np.ndarray
    ids: list[str]
    named: bool
    inputs: np.ndarray
    places: np.ndarray
    reasons: Mapping[int, str]
    labels: list[str] | None
    unreadable: Mapping[str, list[str]]

    def __len__(self) -> int:
        return len(self.numbers)


def encoded_rows(table: Any, schema: Schema) -> Iterator[EncodedRows]:
    """Yield all rows of a file, a frame, records or an array, in blocks of bounded size."""
    reader = reader_of(table, schema)
    schema = schema.located(PictureFiles(reader.folder))
    size = max(1, min(BLOCK_ROWS, MOST_NUMBERS // max(schema.layout.width, 1)))
    first = True
    for block in reader.blocks(size):
        if first and block.rows:
            check_columns(schema, reader, block)
        if len(block):
            yield encode_block(schema, block)
        first = first and not block.rows


def reader_of(table: Any, schema: Schema) -> TableReader:
    """Return a reader of a table; an array is the one column of a schema of arrays."""
    only = schema.inputs[0] if len(schema.inputs) == 1 else None
    if isinstance(table, str | Path):
        reader = open_reader(table, [column.name for column in schema.columns])
        return reader.renamed(schema) if isinstance(reader, PictureFolder) else reader
    if only and only.required and isinstance(table, list) and is_single(next(iter(table), None)):
        return FrameReader({only.name: table})
    if isinstance(table, np.ndarray | Tensor):
        if not isinstance(only, Array):
            raise BadInputError(
                "An array has no names of columns: pass a frame, records, or columns by name."
            )
        array = table.detach().cpu().numpy() if isinstance(table, Tensor) else table
        if array.shape[1:] != only.shape:
            raise BadInputError(
                f"An array of shape {array.shape} has no rows of shape {only.shape}, which the"
                " model takes."
            )
        return FrameReader({only.name: array})
    if isinstance(table, Mapping) and any(is_single(cell) for cell in table.values()):
        raise BadInputError("A mapping is of columns, each a list: pass one record in a list.")
    return FrameReader(table)


def is_single(cell: Any) -> bool:
    """Return whether a value is one cell, and not a column of them."""
    return isinstance(cell, str | bytes) or not hasattr(cell, "__len__")


def check_columns(schema: Schema, reader: TableReader, first: Block) -> None:
    """Raise where no row has a column of the model's; a record may lack one that others have."""
    names = set(first.columns)
    if not {column.name for column in schema.inputs} <= names:
        names = {name for block in reader.blocks(BLOCK_ROWS) for name in block.columns}
    schema.check(sorted(names), reader.name)


def encode_block(schema: Schema, block: Block) -> EncodedRows:
    """Return the rows of a block, malformed ones among them."""
    numbers = np.array(sorted([*block.rows, *block.malformed]), np.int64)
    kept = np.isin(numbers, block.rows)
    places = np.flatnonzero(kept)
    reasons = {int(at): BAD_FIELDS for at in np.flatnonzero(~kept)}
    empty = [None] * len(block.rows)
    columns: dict[str, Cells] = {c.name: block.columns.get(c.name, empty) for c in schema.inputs}
    ids = list(map(str, numbers.tolist()))
    named = schema.id in block.columns
    if named:
        for at, cell in zip(places.tolist(), block.columns[schema.id or ""], strict=True):
            ids[at] = written(cell)
    labels = None
    if schema.label in block.columns:
        labels = [""] * len(numbers)
        for at, text in zip(places.tolist(), texts_of(block.columns[schema.label]), strict=True):
            labels[at] = text
    found = Reading(np.empty((0, *schema.input_shape), np.float32), {}, {})
    if block.rows:
        found = schema.read(columns)
    finite = np.isfinite(found.rows).reshape(len(found.rows), -1).all(axis=1)
    for name, wrong in found.unreadable.items():
        if schema[name].required:
            finite &= ~wrong
    unreadable = {
        name: [ids[places[at]] for at in np.flatnonzero(wrong & finite).tolist()]
        for name, wrong in found.unreadable.items()
        if (wrong & finite).any()
    }
    for at in np.flatnonzero(~finite).tolist():
        reasons[int(places[at])] = why_not(schema, columns, found, at)
    return EncodedRows(
        numbers, ids, named, found.rows[finite], places[finite], reasons, labels, unreadable
    )


def why_not(schema: Schema, columns: Mapping[str, Cells], found: Reading, at: int) -> str:
    """Return why the inputs of a row are not finite."""
    for name, wrong in found.unreadable.items():
        if wrong[at]:
            if error := schema[name].fault(columns[name][at]):
                return str(error)
            text = " ".join(text_of(columns[name][at]).split())
            return f"{name} is not of kind {schema[name].kind}, as in training: {text[:100]}"
    return NOT_FINITE
