"""Predictions and other columns as a file, a block at a time: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamis.errors import UsageError, needs_extra
from tamis.prediction.predictor import PredictedRows
from tamis.runs.spreadsheet import disarm
from tamis.sources.schema.labels import is_number

ENDINGS = (".csv", ".jsonl", ".parquet")
Write = Callable[[PredictedRows], None]
WriteColumns = Callable[[list[list[Any]]], None]


@contextmanager
def open_predictions(
    path: Path, classes: Sequence[str], id_name: str = "row", *, proba: bool = False
) -> Iterator[Write]:
    """Yield a function that writes a block of predictions; the file appears when all are written.

    Its columns are the id or number of each row, the prediction, its probability, with `proba` the
    probability of every class, and the reason where a row has no prediction.
    """
    shares = [f"p_{name}" for name in classes] if proba else []
    names = unlike([id_name, "prediction", "probability", *shares, "reason"])
    types = ["string", "string", "double", *["double"] * len(shares), "string"]
    with open_columns(path, dict(zip(names, types, strict=True))) as write:
        yield lambda rows: write(columns_of(rows, classes, proba))


@contextmanager
def open_columns(path: Path, types: Mapping[str, str]) -> Iterator[WriteColumns]:
    """Yield a function that writes columns of some rows; the file appears when all are written.

    `types` are the columns by name, with their types in Parquet.
    """
    writers = {".csv": csv_writer, ".jsonl": json_writer, ".parquet": parquet_writer}
    check_ending(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with writers[path.suffix.lower()](part, types) as write:
            yield write
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_ending(path: Path) -> None:
    """Raise if no such file can be written."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path} ends in none of {', '.join(ENDINGS)}.")


def unlike(names: list[str]) -> list[str]:
    """Return names of columns that differ: an id may be called `reason`."""
    return [name + "_" * names[:at].count(name) for at, name in enumerate(names)]


def columns_of(rows: PredictedRows, classes: Sequence[str], proba: bool) -> list[list[Any]]:
    """Return the columns of a block, None where there is no prediction."""
    best = rows.best.tolist()
    shares = rows.probabilities.astype(float).round(6)
    listed = shares.tolist()
    predicted = [classes[at] if at >= 0 else None for at in best]
    chosen = [row[at] if at >= 0 else None for row, at in zip(listed, best, strict=True)]
    every = [
        [share if at >= 0 else None for share, at in zip(column, best, strict=True)]
        for column in (shares.T.tolist() if proba else [])
    ]
    reasons = [rows.reasons.get(at) for at in range(len(rows))]
    return [rows.ids, predicted, chosen, *every, reasons]


@contextmanager
def csv_writer(path: Path, names: Mapping[str, str]) -> Iterator[WriteColumns]:
    """Write CSV; no cell is a formula to a spreadsheet."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([disarm(name) for name in names])
        yield lambda columns: writer.writerows(zip(*map(as_cells, columns), strict=True))


def as_cells(column: list[Any]) -> list[Any]:
    """Return cells that a spreadsheet takes as they are; a negative number is not a formula."""
    strange = {cell for cell in column if isinstance(cell, str) and not is_number(cell)}
    changed = {cell: safe for cell in strange if (safe := disarm(cell)) != cell}
    return [changed.get(cell, cell) for cell in column] if changed else column


@contextmanager
def json_writer(path: Path, names: Mapping[str, str]) -> Iterator[WriteColumns]:
    """Write a JSON object a line."""
    with path.open("w", encoding="utf-8") as file:

        def write(columns: list[list[Any]]) -> None:
            for row in zip(*columns, strict=True):
                record = dict(zip(names, row, strict=True))
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

        yield write


@contextmanager
def parquet_writer(path: Path, types: Mapping[str, str]) -> Iterator[WriteColumns]:
    """Write Parquet."""
    with needs_extra("parquet"):
        import pyarrow
        from pyarrow import parquet
    schema = pyarrow.schema(
        [(name, pyarrow.type_for_alias(alias)) for name, alias in types.items()]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        yield lambda columns: writer.write_table(
            pyarrow.table(dict(zip(types, columns, strict=True)), schema)
        )
