"""Suspects and decisions for other tools, and back from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tamis.review.exchange import cleanlab_table, fiftyone_folder, label_studio, tables
from tamis.review.exchange.rows import (
    ImportResult,
    ReviewedRow,
    UnreadableFileError,
    import_decisions,
    read_run,
)

Write = Callable[[Sequence[ReviewedRow], Sequence[str], Path], None]
Read = Callable[[Path], list[ReviewedRow]]


class Format(NamedTuple):
    """How to write and read the files of a tool, and their suffix; none for a folder."""

    write: Write
    read: Read
    suffix: str


FORMATS: Mapping[str, Format] = {
    "csv": Format(tables.write_csv, tables.read_csv, ".csv"),
    "jsonl": Format(tables.write_json_lines, tables.read_json_lines, ".jsonl"),
    "parquet": Format(tables.write_parquet, tables.read_parquet, ".parquet"),
    "label-studio": Format(label_studio.write_tasks, label_studio.read_tasks, ".json"),
    "fiftyone": Format(fiftyone_folder.write_folder, fiftyone_folder.read_folder, ""),
    "cleanlab": Format(cleanlab_table.write_table, cleanlab_table.read_table, ".csv"),
}

__all__ = [
    "FORMATS",
    "Format",
    "ImportResult",
    "ReviewedRow",
    "UnreadableFileError",
    "guess_format",
    "import_decisions",
    "read_run",
]


def guess_format(path: Path) -> str:
    """Return the format of a file, by its suffix and, where two share one, by its first line."""
    if path.is_dir():
        return "fiftyone"
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return "cleanlab" if "is_label_issue" in file.readline(10_000) else "csv"
    for name, form in FORMATS.items():
        if form.suffix and path.suffix == form.suffix:
            return name
    raise UnreadableFileError(
        f"{path} ends in none of .csv, .jsonl, .parquet, .json: give --format."
    )
