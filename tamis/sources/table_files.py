"""Files of labelled rows, read in chunks: CSV, Parquet and NPZ, the label column by name."""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np

from tamis.sources.validation import BadInputError, label_text

T = TypeVar("T")


@dataclass(frozen=True)
class Chunk:
    """Rows as a file has them: numbers (NaN where a cell is none), labels and names as text.

    `malformed` are rows whose fields do not fit the header; they are in no other column.
    """

    columns: list[str]
    numbers: np.ndarray
    labels: list[str]
    names: list[str]
    rows: list[int]
    malformed: list[int]


@dataclass(frozen=True)
class TableFile:
    """A file, and which of its columns are the label, the ids and none of the inputs."""

    path: Path
    label: str
    id_column: str | None
    drop: tuple[str, ...]

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yield the rows in order, so many at a time; an NPZ file is read as a unit."""
        readers = {".csv": read_csv, ".parquet": read_parquet, ".npz": read_npz}
        if self.path.suffix not in readers:
            raise BadInputError(f"{self.path} ends in none of {', '.join(readers)}.")
        return readers[self.path.suffix](self, size)

    def input_columns(self, header: Sequence[str]) -> list[str]:
        """Return the columns of inputs; raise where a named column is missing."""
        ids = [self.id_column] if self.id_column else []
        for name in [self.label, *self.drop, *ids]:
            if name not in header:
                raise BadInputError(
                    f"{self.path} has no column {name!r}; it has {', '.join(header) or 'none'}."
                )
        columns = [name for name in header if name not in {self.label, *ids, *self.drop}]
        if not columns:
            raise BadInputError(f"{self.path} has no column of inputs beside {self.label!r}.")
        return columns


def read_csv(table: TableFile, size: int) -> Iterator[Chunk]:
    """Yield rows of comma-separated text under a header."""
    path, id_column = table.path, table.id_column
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = readable(path, csv.reader(file), (UnicodeDecodeError, csv.Error))
        header = next(lines, [])
        columns = table.input_columns(header)
        at_label = header.index(table.label)
        at_id = header.index(id_column) if id_column else None
        at_columns = [header.index(name) for name in columns]
        chunk: list[tuple[int, list[str]]] = []
        malformed: list[int] = []

        def finish() -> Chunk:
            cells = [[to_number(line[at]) for at in at_columns] for _, line in chunk]
            numbers = np.array(cells, float).reshape(len(chunk), len(columns))
            return Chunk(
                columns,
                narrow(numbers),
                [label_text(line[at_label]) for _, line in chunk],
                [str(row) if at_id is None else line[at_id] for row, line in chunk],
                [row for row, _ in chunk],
                malformed,
            )

        for row, line in enumerate(lines):
            if len(line) == len(header):
                chunk.append((row, line))
            else:
                malformed.append(row)
            if len(chunk) + len(malformed) == size:
                yield finish()
                chunk, malformed = [], []
        if chunk or malformed:
            yield finish()


def read_parquet(table: TableFile, size: int) -> Iterator[Chunk]:
    """Yield rows of a Parquet file, read by pyarrow."""
    path, id_column = table.path, table.id_column
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise BadInputError("Parquet files need pyarrow: pip install 'tamis[parquet]'.") from None
    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise unreadable(path, error) from None
    with file:
        columns = table.input_columns(file.schema_arrow.names)
        row = 0
        for batch in readable(path, file.iter_batches(size), (ArrowInvalid, OSError)):
            cells = [batch.column(name).to_pylist() for name in columns]
            numbers = np.array([[to_number(cell) for cell in column] for column in cells])
            numbers = narrow(numbers.reshape(len(columns), batch.num_rows).T)
            labels = [label_text(cell) for cell in batch.column(table.label).to_pylist()]
            rows = list(range(row, row + batch.num_rows))
            names = batch.column(id_column).to_pylist() if id_column else rows
            yield Chunk(columns, numbers, labels, [str(name) for name in names], rows, [])
            row += batch.num_rows


def read_npz(table: TableFile, size: int) -> Iterator[Chunk]:
    """Yield rows of one archive: the labels by name, and the one other array as inputs."""
    path, label, id_column = table.path, table.label, table.id_column
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, TypeError, BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from None
    columns = table.input_columns(list(arrays))
    if len(columns) != 1:
        raise BadInputError(
            f"{path} holds the arrays {', '.join(columns)}: drop all but the one of inputs."
        )
    inputs, labels = arrays[columns[0]], arrays[label]
    names = arrays[id_column] if id_column else np.arange(len(labels))
    if labels.ndim != 1 or not len(inputs) == len(labels) == len(names):
        raise BadInputError(f"{path}: {label} must be a flat array, with one entry for each row.")
    if inputs.dtype.kind not in "fiub":
        raise BadInputError(f"{path}: {columns[0]} must be numbers.")
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        numbers = narrow(inputs[part])
        yield Chunk(
            columns,
            numbers.reshape(len(numbers), -1) if numbers.ndim == 1 else numbers,
            [label_text(value) for value in labels[part].tolist()],
            [str(name) for name in names[part].tolist()],
            list(range(start, start + len(numbers))),
            [],
        )


def unreadable(path: Path, error: Exception) -> BadInputError:
    """Return the error for a file that is not what its ending promises."""
    kind = {".csv": "CSV", ".parquet": "Parquet", ".npz": "NPZ"}[path.suffix]
    return BadInputError(f"{path} is no {kind} file that can be read: {error}")


def readable(path: Path, parts: Iterator[T], errors: tuple[type[Exception], ...]) -> Iterator[T]:
    """Yield parts of a file; damage found on the way is raised as one sentence."""
    try:
        yield from parts
    except errors as error:
        raise unreadable(path, error) from None


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Return numbers in single precision; one too large becomes infinite, and is rejected later."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def to_number(cell: object) -> float:
    """Return a number; anything else becomes NaN, which the validator rejects row by row."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
