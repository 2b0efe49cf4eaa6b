"""Readers of tables: Parquet, JSON lines, NPZ, frames and records in memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from errno import ENOENT
from functools import cached_property
from hashlib import sha256
from os import strerror
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from tamis.sources.delimited import DelimitedFile
from tamis.sources.hugging_face import PREFIX, is_saved, open_from_hub, open_saved
from tamis.sources.picture_folder import PictureFolder
from tamis.sources.pictures import ENDINGS as PICTURES
from tamis.sources.schema.cells import Cells
from tamis.sources.schema.frames import columns_of, frame_kinds
from tamis.sources.table_blocks import Block, TableReader, readable, unreadable
from tamis.sources.validation import BadInputError

ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson", ".json", ".npz")


def open_reader(
    table: Any, expected: Collection[str] = (), drop: Collection[str] = ()
) -> TableReader:
    """Return a reader of a file by its ending, or of a frame, records or columns in memory.

    A folder is one of pictures or a data set of Hugging Face, and hf:NAME is such a data set.

    `expected` are names of columns, from which the delimiter of a text file is found; arrays of an
    NPZ file that are in `drop` may have any length.
    """
    if not isinstance(table, str | Path):
        return FrameReader(table)
    path = Path(table)
    if str(table).startswith(PREFIX) and not path.exists():
        return open_from_hub(str(table))
    if path.is_dir():
        return open_saved(path) if is_saved(path) else PictureFolder(path)
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv", ".tab"):
        return DelimitedFile(path, tuple(expected))
    if ending in (".parquet", ".pq"):
        return ParquetFile(path)
    if ending in (".jsonl", ".ndjson"):
        return JsonLinesFile(path)
    if ending == ".json":
        return FrameReader(read_json(path), path.name, path.parent)
    if ending == ".npz":
        return FrameReader(read_npz(path, drop), path.name, path.parent)
    if not path.exists():
        raise FileNotFoundError(ENOENT, strerror(ENOENT), str(path))
    if ending in PICTURES:
        return PictureFolder(path)
    raise BadInputError(f"{path} ends in none of {', '.join(ENDINGS)}, and is not a folder.")


@dataclass(frozen=True)
class FileReader:
    """A file: its name and a checksum of its bytes."""

    path: Path
    label: ClassVar[str | None] = None
    id: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def folder(self) -> Path | None:
        """Where relative paths begin: beside the file."""
        return self.path.parent

    @property
    def notes(self) -> list[str]:
        """Nothing is found out that the format does not declare."""
        return []

    @property
    def kinds(self) -> Mapping[str, str]:
        """Kinds that the file itself declares."""
        return {}

    @cached_property
    def digest(self) -> str:
        """Checksum of the content."""
        content = sha256()
        with self.path.open("rb") as file:
            while part := file.read(2**20):
                content.update(part)
        return content.hexdigest()


class JsonLinesFile(FileReader):
    """A file with a JSON object on each line; a column that a record lacks is missing there."""

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield records in order, so many at a time; lines that are no object are set apart."""
        records: list[dict[str, Any]] = []
        rows: list[int] = []
        malformed: list[int] = []
        row = -1
        with self.path.open("rb") as file:
            for row, line in enumerate(file):
                try:
                    record = json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError):
                    record = None
                if isinstance(record, dict):
                    records.append(record)
                    rows.append(row)
                else:
                    malformed.append(row)
                if len(rows) + len(malformed) == size:
                    yield Block(record_columns(records, names), rows, malformed)
                    records, rows, malformed = [], [], []
        if rows or malformed or row < 0:
            yield Block(record_columns(records, names), rows, malformed)


def record_columns(records: list[dict[str, Any]], names: Collection[str]) -> dict[str, Cells]:
    """Return records as columns, those in `names` even where no record has them."""
    found = columns_of(records)
    return found | {name: [None] * len(records) for name in names if name not in found}


class ParquetFile(FileReader):
    """A Parquet file, read by pyarrow; columns of numbers and times become arrays."""

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """A column that the writer encoded as a dictionary is a category."""
        with self._open() as file:
            schema = file.schema_arrow
        types = zip(schema.names, schema.types, strict=True)
        return {name: "category" for name, type_ in types if str(type_).startswith("dictionary")}

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield rows in order, so many at a time."""
        from pyarrow import ArrowException

        row = 0
        with self._open() as file:
            batches = readable(self.path, file.iter_batches(size), (ArrowException, OSError))
            for batch in batches:
                rows = list(range(row, row + batch.num_rows))
                yield Block(columns_of(batch), rows, [])
                row += batch.num_rows
            if not row:
                yield Block({name: [] for name in file.schema_arrow.names}, [], [])

    def _open(self) -> Any:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise BadInputError(
                "Parquet files need pyarrow: pip install 'tamis[parquet]'."
            ) from None
        try:
            return parquet.ParquetFile(self.path)
        except ArrowException as error:
            raise unreadable(self.path, error) from None


class FrameReader:
    """A table in memory: a frame of pandas, Polars or pyarrow, records, or columns by name."""

    label: str | None = None
    id: str | None = None

    def __init__(self, table: Any, name: str = "table", folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder
        self.notes: list[str] = []
        self.kinds = frame_kinds(table)
        self.columns = columns_of(table)

    @cached_property
    def digest(self) -> str:
        """Checksum of the content."""
        content = sha256()
        for name, cells in self.columns.items():
            content.update(name.encode(errors="replace"))
            if isinstance(cells, np.ndarray):
                content.update(cells.dtype.str.encode() + cells.tobytes())
            else:
                content.update(repr(cells).encode(errors="replace"))
        return content.hexdigest()

    def blocks(self, size: int, names: Collection[str] = ()) -> Iterator[Block]:
        """Yield rows in order, so many at a time."""
        total = len(next(iter(self.columns.values()), ()))
        for start in range(0, max(total, 1), size):
            rows = list(range(start, min(start + size, total)))
            part = {name: cells[start : start + size] for name, cells in self.columns.items()}
            yield Block(part, rows, [])


def read_npz(path: Path, drop: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of an archive, each a column; pickled objects are refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, TypeError, BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from None
    lengths = {
        name: len(array) if array.ndim else 0 for name, array in arrays.items() if name not in drop
    }
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
        raise BadInputError(
            f"{path} has arrays of different numbers of rows: {counts}; --drop those that are no"
            " columns."
        )
    rows = next(iter(lengths.values()), 0)
    return arrays | {name: np.zeros(rows) for name in drop if name in arrays}


def read_json(path: Path) -> Any:
    """Return the records of a file that is one list of JSON objects."""
    try:
        records = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise unreadable(path, error) from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise BadInputError(f"{path} is not a list of JSON objects.")
    return records
