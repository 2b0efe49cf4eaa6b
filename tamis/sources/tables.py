"""A user's own table as a stream: CSV, Parquet or NPZ, label column by name.

A first look through the file learns the classes, the scale of the columns and the number of rows;
then the file is played in order, a chunk a slot, and never held in memory as a whole (NPZ is).
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.validation import (
    BAD_FIELDS,
    NO_LABEL,
    BadInputError,
    Validator,
    label_text,
)

T = TypeVar("T")
LOOK_ROWS = 4096


@dataclass(frozen=True)
class Chunk:
    """Rows as a file has them: numbers (NaN where a cell is none), labels and names as text.

    `broken` are rows whose fields do not fit the header; they are in no other column.
    """

    columns: list[str]
    numbers: np.ndarray
    labels: list[str]
    names: list[str]
    rows: list[int]
    broken: list[int]


Reader = Callable[[Path, str, str | None, Sequence[str], int], Iterator[Chunk]]


@dataclass(frozen=True)
class Table:
    """A file of labelled rows, looked through once and ready to be played as a stream.

    Iterating yields `Samples`; `named` yields them with the names of their rows.
    """

    path: Path
    label: str
    id_column: str | None
    drop: tuple[str, ...]
    rows_per_slot: int
    validator: Validator
    classes: tuple[str, ...]
    rows: int
    input_shape: tuple[int, ...]
    mean: Tensor
    deviation: Tensor

    def __len__(self) -> int:
        return -(-self.rows // self.rows_per_slot)

    def play(self) -> Playback:
        """Return the table as a stream with a position."""
        return Playback(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the inputs, where each is a number."""
        if len(self.input_shape) != 1:
            return ()
        chunks = reader_of(self.path)(self.path, self.label, self.id_column, self.drop, 1)
        return tuple(next(chunks).columns)

    def __iter__(self) -> Iterator[Samples]:
        for samples, _ in self.named(self.rows_per_slot, self.validator):
            yield samples

    def named(
        self, size: int = LOOK_ROWS, validator: Validator | None = None, skip: int = 0
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield samples and the names of their rows; rows that cannot be read go to the validator.

        The first `skip` chunks are passed over, as if they had been seen before.
        """
        numbers = {name: number for number, name in enumerate(self.classes)}
        chunks = reader_of(self.path)(self.path, self.label, self.id_column, self.drop, size)
        for chunk in islice(chunks, skip, None):
            if validator:
                validator.reject(chunk.broken, BAD_FIELDS)
                empty = [
                    row for row, name in zip(chunk.rows, chunk.labels, strict=True) if not name
                ]
                validator.reject(empty, NO_LABEL)
            kept = [at for at, name in enumerate(chunk.labels) if name]
            labels = torch.tensor([numbers[chunk.labels[at]] for at in kept], dtype=torch.long)
            ids = torch.tensor([chunk.rows[at] for at in kept], dtype=torch.long)
            inputs = torch.from_numpy(chunk.numbers[kept])
            samples = Samples(inputs, labels, ids, torch.zeros_like(ids))
            yield samples, [chunk.names[at] for at in kept]


class Playback:
    """A table as a stream with a position: a chunk a slot, counted from the first."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.offset = 0

    def seek(self, offset: int) -> None:
        """Continue behind so many chunks."""
        self.offset = int(offset)

    def named(self) -> Iterator[tuple[Samples, list[str] | None]]:
        """Yield samples, and the ids of their rows as text where the table has a column of them."""
        table = self.table
        for samples, names in table.named(table.rows_per_slot, table.validator, self.offset):
            self.offset += 1
            yield samples, names if table.id_column else None

    def acknowledge(self) -> None:
        """Do nothing: a file stays as it is."""

    def close(self) -> None:
        """Do nothing: a file is not waited for."""


def open_table(
    path: Path,
    label: str,
    validator: Validator,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows_per_slot: int = 10,
) -> Table:
    """Look through a file once: classes by name, number of rows, mean and deviation of columns."""
    names: set[str] = set()
    rows = 0
    count, total, squares = np.zeros(1), np.zeros(1), np.zeros(1)
    shape: tuple[int, ...] | None = None
    columns: list[str] = []
    for chunk in reader_of(path)(path, label, id_column, drop, LOOK_ROWS):
        names.update(name for name in chunk.labels if name)
        rows += len(chunk.rows) + len(chunk.broken)
        shape, columns = chunk.numbers.shape[1:], chunk.columns
        flat = chunk.numbers.astype(np.float64)
        if len(shape) > 1:  # an image has one scale, a row of columns one a column
            flat = flat.reshape(-1, 1)
        finite = np.isfinite(flat)
        values = np.where(finite, flat, 0)
        count = count + finite.sum(axis=0)
        total = total + values.sum(axis=0)
        squares = squares + (values**2).sum(axis=0)
    if shape is None or not names:
        raise BadInputError(f"{path} holds no labelled row.")
    if rows > 1 and shape == (len(columns),):
        refuse_text(path, columns, count)
    number = np.maximum(count, 1)
    mean = total / number
    deviation = np.sqrt(np.maximum(squares / number - mean**2, 0))
    return Table(
        path, label, id_column, tuple(drop), rows_per_slot, validator, in_order(names), rows,
        shape, torch.tensor(mean).float(), torch.tensor(deviation).float(),
    )  # fmt: skip


def in_order(names: set[str]) -> tuple[str, ...]:
    """Order class names: as numbers where all are whole numbers, else by the alphabet."""
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(sorted(names))


def reader_of(path: Path) -> Reader:
    """Choose the reader by the file's ending."""
    readers = {".csv": read_csv, ".parquet": read_parquet, ".npz": read_npz}
    if path.suffix not in readers:
        raise BadInputError(f"{path} ends in none of {', '.join(readers)}.")
    return readers[path.suffix]


def read_csv(
    path: Path, label: str, id_column: str | None, drop: Sequence[str], size: int
) -> Iterator[Chunk]:
    """Read rows of comma-separated text under a header."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = readable(path, csv.reader(file), (UnicodeDecodeError, csv.Error))
        header = next(lines, [])
        columns = choose_columns(path, header, label, id_column, drop)
        at_label = header.index(label)
        at_id = header.index(id_column) if id_column else None
        at_columns = [header.index(name) for name in columns]
        chunk: list[tuple[int, list[str]]] = []
        broken: list[int] = []

        def finish() -> Chunk:
            cells = [[to_number(line[at]) for at in at_columns] for _, line in chunk]
            numbers = np.array(cells, float).reshape(len(chunk), len(columns))
            return Chunk(
                columns,
                narrow(numbers),
                [label_text(line[at_label]) for _, line in chunk],
                [str(row) if at_id is None else line[at_id] for row, line in chunk],
                [row for row, _ in chunk],
                broken,
            )

        for row, line in enumerate(lines):
            if len(line) == len(header):
                chunk.append((row, line))
            else:
                broken.append(row)
            if len(chunk) + len(broken) == size:
                yield finish()
                chunk, broken = [], []
        if chunk or broken:
            yield finish()


def read_parquet(
    path: Path, label: str, id_column: str | None, drop: Sequence[str], size: int
) -> Iterator[Chunk]:
    """Read the columns of a Parquet file; pyarrow does it."""
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise BadInputError("Parquet files need pyarrow: pip install 'tamis[parquet]'.") from None
    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise unreadable(path, error) from None
    with file:
        columns = choose_columns(path, file.schema_arrow.names, label, id_column, drop)
        row = 0
        for batch in readable(path, file.iter_batches(size), (ArrowInvalid, OSError)):
            cells = [batch.column(name).to_pylist() for name in columns]
            numbers = np.array([[to_number(cell) for cell in column] for column in cells])
            numbers = narrow(numbers.reshape(len(columns), batch.num_rows).T)
            labels = [label_text(cell) for cell in batch.column(label).to_pylist()]
            rows = list(range(row, row + batch.num_rows))
            names = batch.column(id_column).to_pylist() if id_column else rows
            yield Chunk(columns, numbers, labels, [str(name) for name in names], rows, [])
            row += batch.num_rows


def read_npz(
    path: Path, label: str, id_column: str | None, drop: Sequence[str], size: int
) -> Iterator[Chunk]:
    """Read arrays of one archive: the labels by name, and the one other array as inputs."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, TypeError, BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from None
    columns = choose_columns(path, list(arrays), label, id_column, drop)
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


def choose_columns(
    path: Path, header: Sequence[str], label: str, id_column: str | None, drop: Sequence[str]
) -> list[str]:
    """Return the columns of inputs; a name that is not there gets one sentence."""
    for name in [label, *drop, *([id_column] if id_column else [])]:
        if name not in header:
            raise BadInputError(
                f"{path} has no column {name!r}; it has {', '.join(header) or 'none'}."
            )
    columns = [name for name in header if name not in {label, id_column, *drop}]
    if not columns:
        raise BadInputError(f"{path} has no column of inputs beside {label!r}.")
    return columns


def unreadable(path: Path, error: Exception) -> BadInputError:
    """Say that a file is not what its ending promises."""
    kind = {".csv": "CSV", ".parquet": "Parquet", ".npz": "NPZ"}[path.suffix]
    return BadInputError(f"{path} is no {kind} file that can be read: {error}")


def readable(path: Path, parts: Iterator[T], errors: tuple[type[Exception], ...]) -> Iterator[T]:
    """Hand parts of a file on; damage found on the way gets one sentence."""
    try:
        yield from parts
    except errors as error:
        raise unreadable(path, error) from None


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Make single precision of numbers; one too large becomes infinite, which is refused later."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def to_number(cell: object) -> float:
    """Read a number; what is none becomes NaN, which the validator rejects row by row."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def refuse_text(path: Path, columns: Sequence[str], count: np.ndarray) -> None:
    """Refuse a column without a single number: it holds text, and no row of it could be used."""
    for name, numbers in zip(columns, count, strict=True):
        if not numbers:
            raise BadInputError(
                f"{path}: column {name!r} holds no number; leave it out with --drop {name}."
            )
