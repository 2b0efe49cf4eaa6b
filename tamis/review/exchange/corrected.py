"""The table that a run was trained on, with decisions applied, in the format that it has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tamis.checkpoint import replacing, write_synced
from tamis.errors import UsageError
from tamis.review.exchange.changes import Changes
from tamis.review.exchange.corrected_parquet import correct_parquet
from tamis.review.exchange.corrected_text import correct_delimited, correct_json_lines
from tamis.runs import Decisions, RunFiles, read_metadata
from tamis.sources import Schema, read_schema
from tamis.sources.delimited import DelimitedFile
from tamis.sources.table_blocks import TableReader
from tamis.sources.table_files import JsonLinesFile, ParquetFile, open_reader


class Corrected(NamedTuple):
    """Where a table was read and written, what was changed, and whether it is another by now."""

    source: Path
    out: Path
    changes: Changes
    source_changed: bool


def write_corrected(run: Path, out: Path | None = None, source: Path | None = None) -> Corrected:
    """Write the table of a run with decisions applied, a part at a time, and return what changed.

    Rows keep their order and all cells but the label; rows that were dropped are left out. `source`
    is where the table is, if not at the path that the run was trained on.
    """
    metadata = read_metadata(run)
    if not (run / RunFiles.schema).exists():
        raise UsageError(f"{run} was not trained on a table: it holds no {RunFiles.schema}.")
    schema = read_schema(run / RunFiles.schema)
    if source is None and not metadata.source:
        raise UsageError(f"{run} was not trained on a file: name the table by --source.")
    source = source or Path(metadata.source)
    out = out or Path(f"corrected-{source.name}")
    check_paths(source, out)
    reader = open_checked(source, schema)
    same = reader.digest == metadata.digest
    if not same and schema.id is None:
        raise UsageError(
            f"{source} is not the table that {run} was trained on, and without --id its rows "
            "cannot be found again: name that table by --source."
        )
    changes = Changes(Decisions(run / RunFiles.decisions).in_force(), numbered=same)
    with replacing(out) as part:
        write_part(reader, source, part, schema, changes)
    return Corrected(source, out, changes, not same)


def check_paths(source: Path, out: Path) -> None:
    """Raise where there is no table, or where it would be overwritten or get another format."""
    if not source.is_file():
        raise UsageError(f"{source} is no file any more: name its present path by --source.")
    if out.suffix.lower() != source.suffix.lower():
        raise UsageError(f"--out {out} must end in {source.suffix}, the format of {source.name}.")
    if out.resolve() == source.resolve():
        raise UsageError(f"--out {out} is the table itself: choose another file.")


def open_checked(source: Path, schema: Schema) -> TableReader:
    """Return a reader of a table; raise where it lacks the label or the ids."""
    expected = [schema.label, *([schema.id] if schema.id else [])]
    reader = open_reader(source, [*expected, *(column.name for column in schema.inputs)])
    names = next(iter(reader.blocks(1))).columns
    for name in expected:
        if name not in names:
            raise UsageError(f"{source} has no column {name!r}.")
    return reader


def write_part(
    reader: TableReader, source: Path, part: Path, schema: Schema, changes: Changes
) -> None:
    """Write the corrected table to a path."""
    if isinstance(reader, DelimitedFile):
        write_synced(part, correct_delimited(reader, schema.label, schema.id, changes))
    elif isinstance(reader, JsonLinesFile):
        write_synced(part, correct_json_lines(source, schema.label, schema.id, changes))
    elif isinstance(reader, ParquetFile):
        correct_parquet(source, part, schema.label, schema.id, changes)
        with part.open("rb") as file:
            os.fsync(file.fileno())
    else:
        raise UsageError(
            f"{source} is neither CSV, TSV, Parquet nor JSON lines: only those can be corrected."
        )
