"""Parquet files with decisions applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tamis.review.exchange.changes import Change, Changes, added_names
from tamis.sources.encoded_block import written
from tamis.sources.first_reading import BLOCK_ROWS
from tamis.sources.schema.cells import text_of


def correct_parquet(
    source: Path, out: Path, label: str, id_column: str | None, changes: Changes
) -> None:
    """Write a Parquet file with two columns more; other columns keep their types and values."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(source) as file:
        schema = file.schema_arrow
        for name in added_names(schema.names):
            schema = schema.append(pa.field(name, pa.string()))
        values, row = label_values(file, label), 0
        with parquet.ParquetWriter(out, schema, compression=compression_of(file)) as writer:
            for batch in file.iter_batches(BLOCK_ROWS):
                labels = batch.column(label).to_pylist()
                numbers = range(row, row + len(batch))
                ids = batch.column(id_column).to_pylist() if id_column else numbers
                found = [
                    changes.of(number, written(name), text_of(text))
                    for number, name, text in zip(numbers, ids, labels, strict=True)
                ]
                columns = corrected_columns(batch, label, labels, found, values)
                kept = pa.array([not (change and change.removed) for change in found])
                writer.write_batch(pa.record_batch(columns, schema=schema).filter(kept))
                row += len(batch)


def corrected_columns(
    batch: Any, label: str, labels: list[Any], found: list[Change | None], values: dict[str, Any]
) -> list[Any]:
    """Return the columns of some rows, the label changed where it is to be, and two more."""
    import pyarrow as pa

    columns = list(batch.columns)
    place = batch.schema.get_field_index(label)
    if any(change and change.relabelled for change in found):
        new = [
            values.get(change.label, change.label) if change and change.relabelled else text
            for change, text in zip(found, labels, strict=True)
        ]
        columns[place] = pa.array(new, type=columns[place].type)
    words = [change.word if change else None for change in found]
    originals = [change.original or None if change else None for change in found]
    return [*columns, pa.array(words, pa.string()), pa.array(originals, pa.string())]


def label_values(file: Any, label: str) -> dict[str, Any]:
    """Return the values of the label column by their text, since a label may be a number."""
    found: dict[str, Any] = {}
    for batch in file.iter_batches(BLOCK_ROWS, columns=[label]):
        found |= {text_of(value): value for value in batch.column(0).unique().to_pylist()}
    return found


def compression_of(file: Any) -> str:
    """Return the compression of the first column."""
    about = file.metadata
    if not about.num_row_groups or not about.num_columns:
        return "snappy"
    return str(about.row_group(0).column(0).compression).lower().replace("uncompressed", "none")
