"""A user's own table as a stream: CSV, Parquet or NPZ, label column by name.

A first scan of the file finds the classes, the scale of the columns, the number of rows and a
digest of the content. Then the file is read in order, a chunk a slot, and never held in memory
complete (except NPZ).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.scaling import Magnitudes, Moments
from tamis.sources.table_files import TableFile
from tamis.sources.validation import BAD_FIELDS, NO_LABEL, BadInputError, Validator

SCAN_ROWS = 4096
MOST_CLASSES = 1000
"""Distinct labels from which on they must repeat, each twice in the mean, to be classes."""


@dataclass(frozen=True)
class Table(TableFile):
    """A file of labelled rows that was scanned once, ready to be read as a stream.

    Iterating yields `Samples`; `named` yields them with the names of their rows; `play` is the
    stream with a position, for a `TrainingRun`. `digest` identifies the content: columns, labels,
    ids and numbers of all rows in order.
    """

    rows_per_slot: int
    validator: Validator
    classes: tuple[str, ...]
    rows: int
    input_shape: tuple[int, ...]
    mean: Tensor
    deviation: Tensor
    digest: str

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
        return tuple(next(self.chunks(1)).columns)

    def __iter__(self) -> Iterator[Samples]:
        for samples, _ in self.named(self.rows_per_slot, self.validator):
            yield samples

    def named(
        self, size: int = SCAN_ROWS, validator: Validator | None = None, skip: int = 0
    ) -> Iterator[tuple[Samples, list[str]]]:
        """Yield samples and the names of their rows; rows that cannot be read go to the validator.

        The first `skip` chunks are left out, as rows that were read before.
        """
        numbers = {name: number for number, name in enumerate(self.classes)}
        for chunk in islice(self.chunks(size), skip, None):
            if validator:
                validator.reject(chunk.malformed, BAD_FIELDS)
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
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows_per_slot: int = 10,
) -> Table:
    """Return a table after a scan for classes, number of rows, mean and deviation.

    Where a value is far beyond all others, a second scan measures the columns without it.
    """
    file = TableFile(path, label, id_column, tuple(drop))
    names: set[str] = set()
    rows = 0
    moments, magnitudes = Moments(), Magnitudes()
    shape: tuple[int, ...] | None = None
    columns: list[str] = []
    content = sha256()
    for chunk in file.chunks(SCAN_ROWS):
        texts = (chunk.columns, chunk.labels, chunk.names, chunk.malformed)
        content.update(json.dumps(texts).encode() + chunk.numbers.tobytes())
        names.update(name for name in chunk.labels if name)
        rows += len(chunk.rows) + len(chunk.malformed)
        shape, columns = chunk.numbers.shape[1:], chunk.columns
        moments.update(chunk.numbers)
        magnitudes.update(chunk.numbers)
    if shape is None or not names:
        raise BadInputError(f"{path} holds no labelled row.")
    if rows > 1 and shape == (len(columns),):
        refuse_text(path, columns, moments.count)
    if len(names) > MOST_CLASSES and 2 * len(names) > rows:
        raise BadInputError(
            f"{path}: column {label!r} has {len(names)} distinct values in {rows} rows. These are"
            " no classes: is it a number to predict, or an id?"
        )
    if np.isfinite(bounds := magnitudes.bounds()).any():
        moments = Moments(bounds)
        for chunk in file.chunks(SCAN_ROWS):
            moments.update(chunk.numbers)
    return Table(
        path, label, id_column, file.drop, rows_per_slot, validator, in_order(names), rows,
        shape, *moments.mean_and_deviation(), content.hexdigest(),
    )  # fmt: skip


def in_order(names: set[str]) -> tuple[str, ...]:
    """Return class names in order: as numbers where all are integers, else alphabetically."""
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(sorted(names))


def refuse_text(path: Path, columns: Sequence[str], count: np.ndarray) -> None:
    """Raise where a column has not a single number: it holds text, and no row could be used."""
    for name, numbers in zip(columns, count, strict=True):
        if not numbers:
            raise BadInputError(
                f"{path}: column {name!r} holds no number; leave it out with --drop {name}."
            )
