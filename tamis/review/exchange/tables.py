"""Plain tables: CSV without formulas, JSON lines, Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.errors import as_clause
from tamis.review.exchange.rows import COLUMNS, ReviewedRow, UnreadableFileError, from_cells
from tamis.runs.spreadsheet import disarm, rearm
from tamis.sources.delimited import LONGEST_CELL


def write_csv(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write a CSV that a spreadsheet opens without running any formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([to_cell(value) for value in row.cells().values()])
    write_atomically(path, out.getvalue().encode())


def to_cell(value: Any) -> Any:
    """Return a value as a cell: text disarmed, numbers with all digits, None as an empty cell."""
    if value is None:
        return ""
    return disarm(value) if isinstance(value, str) else repr(value)


def read_csv(path: Path) -> list[ReviewedRow]:
    """Read a CSV, edited or not. It needs a column `id`."""
    return [from_cells(cells) for cells in read_cells(path)]


def read_cells(path: Path) -> list[dict[str, str]]:
    """Return the cells of a CSV by column, with formulas restored as text."""
    csv.field_size_limit(LONGEST_CELL)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "id" not in (reader.fieldnames or ()):
                raise UnreadableFileError(f"{path} has no column 'id'.")
            return [
                {name: rearm(cell) for name, cell in row.items() if name and isinstance(cell, str)}
                for row in reader
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableFileError(f"{path} is not a readable CSV: {error}.") from None


def write_json_lines(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write one JSON object a line."""
    lines = [json.dumps(row.cells(), allow_nan=False) + "\n" for row in rows]
    write_atomically(path, "".join(lines).encode())


def read_json_lines(path: Path) -> list[ReviewedRow]:
    """Read one JSON object a line; empty lines are skipped."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError):
            cells = None
        if not isinstance(cells, dict):
            raise UnreadableFileError(f"{path}, line {number}, is not a JSON object.")
        found.append(from_cells(cells))
    return found


def write_parquet(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write a Parquet file, by pyarrow."""
    pyarrow = load_pyarrow()
    types = {"score": pyarrow.float64(), "row": pyarrow.int64(), "slot": pyarrow.int64()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    table = pyarrow.Table.from_pylist([row.cells() for row in rows], schema=schema)
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    write_atomically(path, out.getvalue())


def read_parquet(path: Path) -> list[ReviewedRow]:
    """Read a Parquet file. It needs a column `id`."""
    pyarrow = load_pyarrow()
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(path.read_bytes()))
    except pyarrow.ArrowInvalid as error:
        why = as_clause(str(error))
        raise UnreadableFileError(f"{path} is not a readable Parquet file: {why}.") from None
    if "id" not in table.column_names:
        raise UnreadableFileError(f"{path} has no column 'id'.")
    return [from_cells(cells) for cells in table.to_pylist()]


def load_pyarrow() -> Any:
    """Import pyarrow, or raise an error that names the extra to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnreadableFileError("Parquet needs pyarrow: pip install 'tamis[parquet]'.") from None
    return pyarrow
