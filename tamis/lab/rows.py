"""Frozen records as lines of a CSV file: added as runs end, and read back after any crash."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tamis.checkpoint import write_atomically
from tamis.sources import BadInputError


class Record(Protocol):
    """A dataclass whose fields are texts, integers and floats."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


R = TypeVar("R", bound=Record)
KINDS = {"str": str, "int": int, "float": float}


def header(kind: type[Record]) -> list[str]:
    """Return the names of the columns."""
    return [field.name for field in fields(kind)]


def as_row(record: Record) -> list[str]:
    """Write a record as a line."""
    return list(key(record, type(record)))


def key(record: Record, kind: type[Record]) -> tuple[str, ...]:
    """Return the fields that identify a record of this kind, as they are in the file."""
    return tuple(as_text(getattr(record, field.name)) for field in fields(kind))


def as_text(value: object) -> str:
    """Write a number with four places."""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def from_row(kind: type[R], row: Sequence[str], columns: Sequence[str] | None = None) -> R:
    """Read a record back; what its columns leave out is what it is by default."""
    types = {field.name: KINDS[str(field.type)] for field in fields(kind)}
    named = zip(columns or header(kind), row, strict=True)
    return kind(**{name: types[name](text) for name, text in named})


def read(path: Path, kind: type[R]) -> list[R]:
    """Read the records that are there; a line that a crash has cut short is dropped for good."""
    if is_empty(path):
        return []
    text = path.read_text(encoding="utf-8")
    head, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    if not suits(head, kind):
        raise BadInputError(
            f"{path} has other columns than this version writes: name another --out."
        )
    complete = text.endswith("\n")
    records = []
    for row in rows if complete else rows[:-1]:
        try:
            records.append(from_row(kind, row, head))
        except ValueError:
            complete = False
    if not complete:
        replace_all(path, records, kind)
    return records


def suits(head: Sequence[str], kind: type[Record]) -> bool:
    """Return whether columns are those of a kind; fields with a default may be missing."""
    unknown = {field.name for field in fields(kind) if field.default != field.default}
    return list(head) == [name for name in header(kind) if name in head or name not in unknown]


def append(path: Path, records: Sequence[Record]) -> None:
    """Add lines at once, under titles if they are the first."""
    kind = type(records[0])
    rows = [header(kind), *map(as_row, records)] if is_empty(path) else map(as_row, records)
    if not is_empty(path) and first_line(path) != header(kind):
        replace_all(path, read(path, kind), kind)  # an older file learns the new columns
    add_lines(path, rows)


def add_lines(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Add lines as they are, and see that they reach the disk."""
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
        file.flush()
        os.fsync(file.fileno())


def replace_all(path: Path, records: Iterable[Record], kind: type[Record]) -> None:
    """Write records in place of what is there."""
    rewrite(path, [header(kind), *map(as_row, records)])


def rewrite(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Replace the lines of a file, completely or not at all."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_atomically(path, out.getvalue().encode())


def first_line(path: Path) -> list[str]:
    """Return the titles of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def is_empty(path: Path) -> bool:
    """Return whether a file is missing or empty."""
    return not path.exists() or not path.stat().st_size
