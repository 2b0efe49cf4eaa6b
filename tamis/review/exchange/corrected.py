"""The table that a run was trained on, with decisions applied, in the format that it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_IMODE
from typing import NamedTuple

from tamis.checkpoint import replacing, write_synced
from tamis.errors import UsageError
from tamis.review.exchange.changes import Changes, added_names
from tamis.review.exchange.corrected_parquet import correct_parquet
from tamis.review.exchange.corrected_text import correct_delimited, correct_json_lines, quoted
from tamis.runs import Decisions, RunFiles, read_metadata
from tamis.sources import Schema, read_schema
from tamis.sources.delimited import DelimitedFile
from tamis.sources.encoded_block import written
from tamis.sources.hugging_face import PREFIX
from tamis.sources.picture_folder import PictureFolder
from tamis.sources.schema.cells import texts_of
from tamis.sources.table_blocks import TableReader
from tamis.sources.table_files import JsonLinesFile, ParquetFile, open_reader

WRITTEN = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson")
"""Formats in which a corrected table is written; of others, a list."""
LIST, LIST_ROWS = ".csv", 256  # of pictures, blocks may hold the bytes


class Corrected(NamedTuple):
    """Where a table was read and written, what was changed, and whether it is another by now."""

    source: Path
    out: Path
    changes: Changes
    source_changed: bool


def write_corrected(run: Path, out: Path | None = None, source: Path | None = None) -> Corrected:
    """Write the table of a run with decisions applied, a part at a time, and return what changed.

    Rows keep their order and all cells but the label; rows that were dropped are left out. Of a
    folder of pictures, and of what is not CSV, TSV, Parquet or JSON lines, a list is written: ids
    and labels. `source` is where the table is, if not at the path that the run was trained on.
    """
    metadata = read_metadata(run)
    if not (run / RunFiles.schema).exists():
        raise UsageError(f"{run} was not trained on a table: it holds no {RunFiles.schema}.")
    schema = read_schema(run / RunFiles.schema)
    if source is None and not metadata.source:
        raise UsageError(f"{run} was not trained on a file: name the table by --source.")
    source = source or Path(metadata.source)
    suffix = source.suffix.lower() if source.suffix.lower() in WRITTEN else LIST
    out = out or Path(f"corrected-{source.stem}{suffix}")
    check_paths(source, out, suffix)
    reader = open_checked(source, schema)
    same = reader.digest == metadata.digest
    if not same and schema.id is None:
        raise UsageError(
            f"{source} is not the table that {run} was trained on, and without --id its rows "
            "cannot be found again: name that table by --source."
        )
    changes = Changes(Decisions(run / RunFiles.decisions).in_force(), numbered=same)
    with replacing(out, private=True) as part:
        write_part(reader, source, part, schema, changes)
        if source.is_file():  # who may read the table may read this one
            part.chmod(S_IMODE(source.stat().st_mode))
    return Corrected(source, out, changes, not same)


def check_paths(source: Path, out: Path, suffix: str) -> None:
    """Raise where there is no table, or where it would be overwritten or get another format."""
    if not source.exists() and not str(source).startswith(PREFIX):
        raise UsageError(f"{source} is not there any more: name its present path by --source.")
    if out.suffix.lower() != suffix:
        raise UsageError(f"--out {out} must end in {suffix}, for {source.name}.")
    if out.resolve() == source.resolve():
        raise UsageError(f"--out {out} is the table itself: choose another file.")


def open_checked(source: Path, schema: Schema) -> TableReader:
    """Return a reader of a table; raise where it lacks the label or the ids."""
    expected = [schema.label, *([schema.id] if schema.id else [])]
    reader = open_reader(source, [*expected, *(column.name for column in schema.inputs)])
    if isinstance(reader, PictureFolder):
        reader = reader.renamed(schema)
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
        write_synced(part, correct_list(reader, schema, changes))


def correct_list(reader: TableReader, schema: Schema, changes: Changes) -> Iterator[bytes]:
    """Yield ids, or numbers of rows, and labels as CSV."""
    header = [schema.id or "row", schema.label]
    yield csv_line([*header, *added_names(header)])
    for block in reader.blocks(LIST_ROWS, header):
        labels = texts_of(block.columns[schema.label])
        names = [written(id_) for id_ in block.columns[schema.id]] if schema.id else None
        for at, row in enumerate(block.rows):
            name = names[at] if names else str(row)
            change = changes.of(row, name, labels[at])
            if change is None:
                yield csv_line([name, labels[at], "", ""])
            elif not change.removed:
                yield csv_line([name, change.label, change.word, change.original])


def csv_line(cells: Sequence[str]) -> bytes:
    """Return a line of CSV; a path is bytes that may be no text."""
    line = ",".join(quoted(cell, ",") for cell in cells) + "\n"
    return line.encode("utf-8", "surrogateescape")
