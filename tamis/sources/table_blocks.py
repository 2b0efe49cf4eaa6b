"""Rows of a table in blocks, a column at a time, as every reader of tables yields them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from tamis.sources.schema.cells import Cells
from tamis.sources.validation import BadInputError

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Some rows in order: cells by column, the number of each row, and which could not be read.

    `malformed` are numbers of rows whose fields do not fit the header; they are in no column.
    """

    columns: dict[str, Cells]
    rows: list[int]
    malformed: list[int]

    @property
    def start(self) -> int:
        """Number of the first row."""
        return min(self.rows[:1] + self.malformed[:1], default=0)

    def __len__(self) -> int:
        return len(self.rows) + len(self.malformed)


class TableReader(Protocol):
    """A table that can be read from its start any number of times."""

    @property
    def name(self) -> str:
        """What the table is called."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """Kinds of columns that the table itself declares."""

    @property
    def digest(self) -> str:
        """Checksum of the content."""

    @property
    def notes(self) -> Sequence[str]:
        """What was found out about the file, to be printed."""

    @property
    def label(self) -> str | None:
        """The column of labels, where the table itself declares it."""

    @property
    def id(self) -> str | None:
        """The column that identifies rows, where the table itself declares it."""

    @property
    def folder(self) -> Path | None:
        """Where relative paths in the table begin; None is the working folder."""

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield all rows in order, at least one block; records get the columns in `names`."""


@runtime_checkable
class RandomAccess(TableReader, Protocol):
    """A table whose rows can be read in any order."""

    def take(self, rows: Sequence[int]) -> Block:
        """Return these rows."""


def header_names(cells: Sequence[str]) -> list[str]:
    """Return column names that differ: one without a name is numbered, and so is a second one.

    >>> header_names(["", "a", " b ", "a"])
    ['column 0', 'a', 'b', 'a (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for at, cell in enumerate(cells):
        name = cell.strip() or f"column {at}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def by_column(header: Sequence[str], lines: Sequence[Sequence[Any]], first: int) -> Block:
    """Return lines, numbered from `first`, as columns; those that do not fit are set apart."""
    width = len(header)
    rows, malformed = list(range(first, first + len(lines))), []
    if {*map(len, lines)} - {width}:
        malformed = [row for row, line in zip(rows, lines, strict=True) if len(line) != width]
        rows = [row for row, line in zip(rows, lines, strict=True) if len(line) == width]
        lines = [line for line in lines if len(line) == width]
    cells = zip(*lines, strict=True) if lines else [() for _ in header]
    return Block(dict(zip(header, cells, strict=True)), rows, malformed)


def unreadable(path: Path, error: Exception) -> BadInputError:
    """Return the error for a file that is not what its ending promises."""
    kind = path.suffix.lstrip(".").upper()
    names = {"PARQUET": "Parquet", "PQ": "Parquet", "JSONL": "JSON lines", "NDJSON": "JSON lines"}
    return BadInputError(f"{path} is not a readable {names.get(kind, kind)} file: {error}")


def readable(path: Path, parts: Iterator[T], errors: tuple[type[Exception], ...]) -> Iterator[T]:
    """Yield parts of a file; damage found on the way is raised as one sentence."""
    try:
        yield from parts
    except errors as error:
        raise unreadable(path, error) from None
