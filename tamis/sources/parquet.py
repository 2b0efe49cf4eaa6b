"""Rows of a Parquet file, from any row on; one that is still being written is recognised."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import unquote

from tamis.sources.pieces import Has, everything
from tamis.sources.protocol import SourceError
from tamis.sources.text import Entry

READ_ROWS = 1_024


class IncompleteFileError(Exception):
    """A file without its footer, which is written last."""


class Parquet:
    """Rows as mappings from names of columns, and of folders like `kind=ant`, to values.

    `has` returns whether a group of rows, by its number, is to be read.
    """

    def __init__(self, file: BinaryIO, name: str = "", has: Has = everything) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise SourceError("Parquet files need pyarrow: pip install 'tamis[parquet]'") from None
        self.damage = (ArrowException, OSError)
        self._mark = mark_footer(file)
        self.has = has
        self._folders = named_in_folders(name)
        try:
            self.table = parquet.ParquetFile(file)
        except self.damage as error:
            raise SourceError(f"it is not a readable Parquet file: {error}") from None

    def entries(self, position: int) -> Iterator[Entry]:
        """Yield rows from a row on; groups of rows before it are not read."""
        about, first = self.table.metadata, 0
        for group in range(about.num_row_groups):
            rows = about.row_group(group).num_rows
            if first + rows > position and self.has(group):
                yield from self._entries(group, first, position)
            first += rows

    def _entries(self, group: int, first: int, position: int) -> Iterator[Entry]:
        """Yield those rows of a group, whose first is given, that are not before a position."""
        try:
            for part in self.table.iter_batches(READ_ROWS, row_groups=[group]):
                skipped = min(len(part), max(0, position - first))
                for row, record in enumerate(part.slice(skipped).to_pylist(), first + skipped):
                    yield Entry({**self._folders, **record}, row, row + 1)
                first += len(part)
        except self.damage as error:
            raise SourceError(f"its rows from {first} on cannot be read: {error}") from None

    def mark(self, position: int) -> int:
        """Return a checksum of the footer, which no other file shares."""
        return self._mark


def mark_footer(file: BinaryIO) -> int:
    """Return a checksum of the footer; raise where there is none yet."""
    size = file.seek(0, io.SEEK_END)
    if size < 12:
        raise IncompleteFileError
    file.seek(-8, os.SEEK_END)
    ending = file.read(8)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != b"PAR1" or length > size - 12:
        raise IncompleteFileError
    file.seek(size - 8 - length)
    return zlib.crc32(file.read(length), size & 0xFFFFFFFF)


def named_in_folders(name: str) -> dict[str, str]:
    """Return columns from the names of folders, as partitioned data sets have them.

    >>> named_in_folders("year=2024/kind=a%20b/part-0.parquet")
    {'year': '2024', 'kind': 'a b'}
    """
    pairs = [part.split("=", 1) for part in name.split("/")[:-1] if "=" in part]
    return {unquote(column): unquote(value) for column, value in pairs}
