"""Predictions as a file, written a block at a time: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamis.errors import UsageError, needs_extra
from tamis.prediction.predictor import PredictedRows
from tamis.runs.spreadsheet import disarm
from tamis.sources.schema.labels import is_number

ENDINGS = (".csv", ".jsonl", ".parquet")
Write = Callable[[PredictedRows], None]


@contextmanager
def open_predictions(
    path: Path, classes: Sequence[str], id_name: str = "row", *, proba: bool = False
) -> Iterator[Write]:
    """Yield a function that writes a block of predictions; the file appears when all are written.

    Its columns are the id or number of each row, the prediction, its probability, with `proba` the
    probability of every class, and the reason where a row has no prediction.
    """
    writers = {".csv": csv_writer, ".jsonl": json_writer, ".parquet": parquet_writer}
    if path.suffix.lower() not in writers:
        raise UsageError(f"{path} ends in none of {', '.join(ENDINGS)}.")
    shares = [f"p_{name}" for name in classes] if proba else []
    names = unlike([id_name, "prediction", "probability", *shares, "reason"])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with writers[path.suffix.lower()](part, names) as write:
            yield lambda rows: write(columns_of(rows, classes, proba))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
def csv_writer(path: Path, names: list[str]) -> Iterator[Callable[[list[list[Any]]], None]]:
    """Write CSV; no cell is a formula to a spreadsheet."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([disarm(name) for name in names])
        yield lambda columns: writer.writerows(zip(*map(as_cells, columns), strict=True))


def as_cells(column: list[Any]) -> list[Any]:
    """Return cells that a spreadsheet takes as they are; a negative number is no formula."""
    strange = {cell for cell in column if isinstance(cell, str) and not is_number(cell)}
    changed = {cell: safe for cell in strange if (safe := disarm(cell)) != cell}
    return [changed.get(cell, cell) for cell in column] if changed else column


@contextmanager
def json_writer(path: Path, names: list[str]) -> Iterator[Callable[[list[list[Any]]], None]]:
    """Write a JSON object a line."""
    with path.open("w", encoding="utf-8") as file:

        def write(columns: list[list[Any]]) -> None:
            for row in zip(*columns, strict=True):
                record = dict(zip(names, row, strict=True))
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

        yield write


@contextmanager
def parquet_writer(path: Path, names: list[str]) -> Iterator[Callable[[list[list[Any]]], None]]:
    """Write Parquet."""
    with needs_extra("parquet"):
        import pyarrow
        from pyarrow import parquet
    texts = (names[0], "prediction", "reason")
    schema = pyarrow.schema(
        [(name, pyarrow.string() if name in texts else pyarrow.float64()) for name in names]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        yield lambda columns: writer.write_table(
            pyarrow.table(dict(zip(names, columns, strict=True)), schema)
        )
