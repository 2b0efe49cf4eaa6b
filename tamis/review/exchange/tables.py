"""Plain tables: CSV that is no formula anywhere, JSON lines, Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.review.exchange.reviewed import COLUMNS, Reviewed, UnreadableFileError, from_cells
from tamis.runs.spreadsheet import disarm, rearm

LONGEST_CELL = 2**20


def write_csv(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write a table that a spreadsheet opens and runs nothing of."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for one in reviewed:
        writer.writerow([cell_of(value) for value in one.cells().values()])
    write_atomically(path, out.getvalue().encode())


def cell_of(value: Any) -> Any:
    """Write a value into a cell: text disarmed, a number with all its digits, nothing as none."""
    if value is None:
        return ""
    return disarm(value) if isinstance(value, str) else repr(value)


def read_csv(path: Path) -> list[Reviewed]:
    """Read such a table, edited or not. It needs a column `id`."""
    return [from_cells(cells) for cells in read_cells(path)]


def read_cells(path: Path) -> list[dict[str, str]]:
    """Read the cells of a CSV by their columns, as they were before they were disarmed."""
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
        raise UnreadableFileError(f"{path} is no CSV that can be read: {error}.") from None


def write_json_lines(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write one object a line."""
    lines = [json.dumps(one.cells(), allow_nan=False) + "\n" for one in reviewed]
    write_atomically(path, "".join(lines).encode())


def read_json_lines(path: Path) -> list[Reviewed]:
    """Read one object a line; empty lines are none."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError):
            cells = None
        if not isinstance(cells, dict):
            raise UnreadableFileError(f"{path}, line {number}, is no object of JSON.")
        found.append(from_cells(cells))
    return found


def write_parquet(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write a table with types; pyarrow does it."""
    pyarrow = load_pyarrow()
    types = {"score": pyarrow.float64(), "row": pyarrow.int64(), "slot": pyarrow.int64()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    table = pyarrow.Table.from_pylist([one.cells() for one in reviewed], schema=schema)
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    write_atomically(path, out.getvalue())


def read_parquet(path: Path) -> list[Reviewed]:
    """Read such a table. It needs a column `id`."""
    pyarrow = load_pyarrow()
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(path.read_bytes()))
    except pyarrow.ArrowInvalid as error:
        raise UnreadableFileError(f"{path} is no Parquet file that can be read: {error}.") from None
    if "id" not in table.column_names:
        raise UnreadableFileError(f"{path} has no column 'id'.")
    return [from_cells(cells) for cells in table.to_pylist()]


def load_pyarrow() -> Any:
    """Import pyarrow, or say what to do about it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnreadableFileError("Parquet needs pyarrow: pip install 'tamis[parquet]'.") from None
    return pyarrow
