"""The schema of a table: columns and classes, and rows of numbers by them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tamis.checkpoint import write_atomically
from tamis.models.tabular import TableLayout
from tamis.sources.pictures import PictureFiles
from tamis.sources.schema.category import Category
from tamis.sources.schema.cells import Cells, text_of, texts_of
from tamis.sources.schema.column import Column
from tamis.sources.schema.frames import columns_of, frame_kinds
from tamis.sources.schema.image import Image, holds_pictures
from tamis.sources.schema.infer import infer_columns, kind_named
from tamis.sources.schema.text import Text
from tamis.sources.validation import BadInputError

VERSION = 1


class Reading(NamedTuple):
    """Encoded rows and, by column, which of their cells are missing, and which unreadable."""

    rows: np.ndarray
    missing: dict[str, np.ndarray]
    unreadable: dict[str, np.ndarray]


@dataclass(frozen=True)
class Schema:
    """What a table's columns are, and how a row becomes numbers: first found out, then fixed.

    An encoded row has one layout: all numbers (with flags, booleans and parts of dates), then a
    code for each category, then the n-grams of each text. `encode` takes a mapping of columns, a
    list of records, or a frame of pandas, Polars or pyarrow, in any order of columns.

    >>> table = {"age": [31, 47, None], "town": ["Bern", "Rome", "Bern"], "y": ["a", "b", "a"]}
    >>> schema = infer_schema(table, label="y")
    >>> schema.encode([{"town": "Oslo", "age": None}]).tolist()
    [[39.0, 1.0, 1.0]]
    >>> schema.decode(schema.encode(table)[1])
    {'age': '47', 'town': 'Rome'}
    """

    columns: tuple[Column, ...]
    label: str = ""
    classes: tuple[str, ...] = ()
    id: str | None = None

    @cached_property
    def inputs(self) -> tuple[Column, ...]:
        """Columns that are not left out, in the order of an encoded row."""
        parts = ("numbers", "categories", "texts")
        return tuple(column for part in parts for column in self.columns if column.part == part)

    @cached_property
    def layout(self) -> TableLayout:
        """The layout of an encoded row, for a model of tables."""
        return TableLayout(
            sum(column.width for column in self.inputs if column.part == "numbers"),
            tuple(column.codes for column in self.inputs if isinstance(column, Category)),
            tuple((c.tokens, c.buckets) for c in self.inputs if isinstance(c, Text)),
        )

    @property
    def is_mixed(self) -> bool:
        """Whether there are categories or texts beside the numbers."""
        return self.layout.numbers < self.layout.width

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of an encoded row: flat, but for a table of one column of pictures."""
        if len(self.inputs) == 1 and prod(self.inputs[0].shape) == self.layout.width:
            return self.inputs[0].shape
        return (self.layout.width,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an encoded row: bytes for pictures, which are many, else singles."""
        pictures = any(isinstance(column, Image) for column in self.inputs)
        return np.dtype(np.uint8 if pictures else np.float32)

    def located(self, files: PictureFiles) -> Schema:
        """Return the schema with relative paths of pictures that begin somewhere."""
        columns = (c.located(files) if isinstance(c, Image) else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of an encoded row."""
        return tuple(name for column in self.inputs for name in column.names)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where in an encoded row each input lies."""
        found, start = {}, 0
        for column in self.inputs:
            found[column.name] = slice(start, start + column.width)
            start += column.width
        return found

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def encode(self, table: Any) -> np.ndarray:
        """Return the rows of a table as singles; raise in one sentence where a column is missing.

        Columns that the schema does not have are ignored, and so are label and id.
        """
        return self.read(table).rows

    def read(self, table: Any) -> Reading:
        """Return encoded rows and, by column, which cells are missing or unreadable.

        Unreadable ones are encoded as missing; in a constant column they are those of another
        value.
        """
        columns = columns_of(table)
        self.check(columns)
        rows = len(next(iter(columns.values())))
        encoded = np.empty((rows, self.layout.width), self.dtype)
        found = Reading(encoded.reshape(rows, *self.input_shape), {}, {})
        for column in self.columns:
            if column.name not in columns:  # one that is left out
                continue
            cells = columns[column.name]
            values = column.read(cells)
            if column.name in self.places:
                encoded[:, self.places[column.name]] = column.fill(values)
            absent, wrong = column.missing_in(values), column.unreadable(values, cells)
            found.missing.update({column.name: absent} if absent.any() else {})
            found.unreadable.update({column.name: wrong} if wrong.any() else {})
        return found

    def decode(self, row: Any) -> dict[str, str | None]:
        """Return the readable values of one encoded row by column, None where one was missing."""
        flat = np.asarray(row, np.float32).reshape(-1)
        return {
            column.name: column.decode(flat[self.places[column.name]])
            for column in self.columns
            if column.name in self.places
        }

    def label_numbers(self, labels: Cells) -> np.ndarray:
        """Return the number of each label's class; -1 where it is missing or no class."""
        return np.array([self._numbers.get(text, -1) for text in texts_of(labels)], np.int64)

    def check(self, names: Iterable[str], where: str = "The table") -> None:
        """Raise where a column that the model was trained on is missing."""
        present = list(names)
        absent = [column.name for column in self.inputs if column.name not in present]
        if not absent:
            return
        known = {column.name for column in self.columns} | {self.label, self.id}
        others = [name for name in present if name not in known]
        close = get_close_matches(absent[0], others, 1, 0.6) or others[:1]
        hint = f"; is it {close[0]!r} now?" if close else "."
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise BadInputError(f"{where} has no column {absent[0]!r}{more}{hint}")

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON."""
        return {
            "version": VERSION,
            "label": self.label,
            "classes": list(self.classes),
            "id": self.id,
            "columns": [column.to_json() for column in self.columns],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Schema:
        """Return the schema that was saved as JSON; raise in one sentence where it is none."""
        try:
            if found["version"] != VERSION:
                raise BadInputError(f"The schema is of version {found['version']}, not {VERSION}.")
            columns = []
            for fields in found["columns"]:
                given = dict(fields)
                kind = kind_named(str(given.get("name")), given.pop("kind"))
                columns.append(kind.from_fields(given))
            label, classes, id_ = found["label"], found["classes"], found["id"]
            if not isinstance(classes, list) or not all(
                isinstance(text, str) for text in [label, id_ or "", *classes]
            ):
                raise TypeError("names are texts")
            return cls(tuple(columns), label, tuple(classes), id_)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, BadInputError):
                raise
            raise BadInputError(f"This is not a schema of a table: {error!r}.") from None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}


def infer_schema(
    table: Any,
    *,
    label: str = "",
    classes: Sequence[str] | None = None,
    id: str | None = None,  # noqa: A002
    kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    named: bool = False,
    pictures: PictureFiles | None = None,
    side: int | None = None,
) -> Schema:
    """Return the schema of a table.

    Parameters
    ----------
    table: a mapping of columns, a list of records, or a frame.
    label: column of the labels.
    classes: all class names in order; else those in the table.
    id: column that identifies the rows.
    kinds: kinds of columns by name, in place of those found out.
    drop: columns to leave out.
    named: all columns are inputs by a user's word, so none is taken for an id or a constant.
    pictures: where paths of pictures begin; without it none are looked for.
    side: pixels of the side of a picture, in place of what fits them.
    """
    columns = columns_of(table)
    if classes is None:
        classes = in_order({text_of(cell) for cell in columns.get(label, ())} - {""})
    left = {label, id, *drop}
    if id in (kinds or {}) or (pictures and id and holds_pictures(columns.get(id, ()), pictures)):
        left.discard(id)  # the paths of pictures, by which they are also called
    inputs = {name: cells for name, cells in columns.items() if name not in left}
    declared = {name: kind for name, kind in frame_kinds(table).items() if name in inputs}
    chosen = declared | dict(kinds or {})
    found = infer_columns(inputs, chosen, named=named, pictures=pictures, side=side)
    return Schema(found, label, tuple(classes), id)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return class names in order: as numbers where all are integers, else alphabetically."""
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(sorted(names))


def write_schema(path: Path, schema: Schema) -> None:
    """Write a schema as JSON, in place of an older file."""
    text = json.dumps(schema.to_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def read_schema(path: Path) -> Schema:
    """Read a schema from its file."""
    try:
        return Schema.from_json(json.loads(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadInputError):
            raise
        raise BadInputError(f"{path} is not a schema of a table: {error}.") from None
