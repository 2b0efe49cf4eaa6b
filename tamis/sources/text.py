"""Lines of a text file that may still be growing: complete ones are read, from any byte on."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from tamis.sources.pieces import PIECE, Has, everything
from tamis.sources.protocol import Decode, ReplacedError, SourceError, Unreadable, decoded
from tamis.sources.validation import BAD_FIELDS

LONGEST = 16 * 2**20
"""Bytes of a line that are read at all: a file without a newline must not fill the memory."""
MARKED = 64
"""Bytes before an offset that are compared when a file is opened again."""


class Entry(NamedTuple):
    """A record, where it begins in its file, and where the next one does."""

    record: Any
    start: int
    end: int


class JSONLines:
    """One JSON value a line; empty lines are skipped.

    `has` returns whether a piece of the file, by its number, is to be read: those lines that begin
    in it.
    """

    def __init__(self, file: BinaryIO, final: bool, decode: Decode, has: Has = everything) -> None:
        self.file = file
        self.final = final
        self.decode = decode
        self.has = has

    def entries(self, position: int) -> Iterator[Entry]:
        """Yield records from a byte on."""
        size = self.file.seek(0, io.SEEK_END)
        while position < size:
            piece = position // PIECE
            if self.has(piece):
                end = (piece + 1) * PIECE
                for entry in self._entries(position):
                    if entry.start >= end:
                        break
                    yield entry
                    position = entry.end
                else:
                    return
                position = entry.start
            else:
                position = next_line(self.file, (piece + 1) * PIECE)

    def _entries(self, position: int) -> Iterator[Entry]:
        for line, start, end in complete_lines(self.file, position, self.final):
            if isinstance(line, Unreadable):
                yield Entry(line, start, end)
            elif line.strip():
                yield Entry(decoded(line, self.decode), start, end)

    def mark(self, position: int) -> int:
        """Return a checksum of what stands before a position."""
        return mark_text(self.file, position)


def next_line(file: BinaryIO, position: int) -> int:
    """Return where the first line begins that begins at a byte or after it."""
    file.seek(position - 1)
    while (part := file.readline(LONGEST)) and not part.endswith(b"\n"):
        pass
    return file.tell()


class IncompleteLineError(Exception):
    """An incomplete row: its quote is still open where the file ends."""


class CSV:
    """Rows of comma-separated text under a header, as mappings from its names to text."""

    def __init__(self, file: BinaryIO, final: bool) -> None:
        self.file = file
        self.final = final

    def entries(self, position: int) -> Iterator[Entry]:
        """Yield rows from a byte on; a quoted cell may go over lines."""
        rows = self._rows(0)
        header = next(rows, None)
        if header is None or isinstance(header.record, Unreadable):
            if header is None:
                return
            raise SourceError(f"the header of the CSV file is not readable: {header.record.detail}")
        names = [name.strip() for name in header.record]
        if len(set(names)) < len(names):
            raise SourceError(f"the header of the CSV file has a name twice: {', '.join(names)}")
        for cells, start, end in rows if position == 0 else self._rows(position):
            record = cells
            if not isinstance(cells, Unreadable):
                record = (
                    dict(zip(names, cells, strict=True))
                    if len(cells) == len(names)
                    else Unreadable(cells, BAD_FIELDS)
                )
            yield Entry(record, start, end)

    def mark(self, position: int) -> int:
        """Return a checksum of what stands before a position."""
        return mark_text(self.file, position)

    def _rows(self, position: int) -> Iterator[Entry]:
        """Yield lists of cells; after a row that cannot be parsed, continue with the next line."""
        while True:
            lines = Continued(self.file, position, self.final)
            reader = csv.reader(lines)
            try:
                for cells in reader:
                    start, position = position, lines.end
                    if cells:
                        yield Entry(cells, start, position)
                    lines.begin()
                return
            except IncompleteLineError:
                if not self.final:
                    return
                fault = "the quote is never closed"
            except (UnicodeDecodeError, csv.Error) as error:
                fault = str(error)
            start, position = position, lines.first_end
            yield Entry(Unreadable(lines.first, "not decoded", fault), start, position)


class Continued:
    """Lines for the csv module, which requests another while a quote is open.

    It remembers the first line of a row, and where it ended, in case the row has no sense.
    """

    def __init__(self, file: BinaryIO, position: int, final: bool) -> None:
        self._lines = complete_lines(file, position, final)
        self.end = self.first_end = position
        self.first: bytes | None = None

    def begin(self) -> None:
        """Forget the row before."""
        self.first = None

    def __iter__(self) -> Continued:
        return self

    def __next__(self) -> str:
        line, start, end = next(self._lines, (None, 0, 0))
        if line is None:
            if self.first is None:
                raise StopIteration
            raise IncompleteLineError
        raw = line.raw if isinstance(line, Unreadable) else line
        if self.first is None:
            self.first, self.first_end = raw, end
        self.end = end
        if isinstance(line, Unreadable):
            raise csv.Error(line.reason)
        return raw.decode("utf-8" if start else "utf-8-sig")  # else a mark precedes the quote


def complete_lines(
    file: BinaryIO, position: int, final: bool
) -> Iterator[tuple[bytes | Unreadable, int, int]]:
    """Yield lines that end in a newline, each with its start and end.

    What follows the last newline is half a line, unless `final` is set. The file may
    be read elsewhere between two lines.
    """
    position = skip_the_end_of_a_line(file, position)
    while True:
        file.seek(position)
        line = file.readline(LONGEST)
        more, end = line, position + len(line)
        while more and not more.endswith(b"\n"):
            more = file.readline(LONGEST)
            end += len(more)
        if end == position or not (more or final):
            return
        complete = end == position + len(line)
        yield (line if complete else Unreadable(line, "line too long")), position, end
        position = end


def skip_the_end_of_a_line(file: BinaryIO, position: int) -> int:
    """Skip the newline of a line that was read, as the last one, before it had one."""
    if position == 0:
        return 0
    file.seek(position - 1)
    before, *after = (bytes([byte]) for byte in file.read(3))
    if before == b"\n" or not after:
        return position
    if after[0] == b"\n":
        return position + 1
    if b"".join(after) == b"\r\n":
        return position + 2
    raise ReplacedError(f"the line before byte {position} has gone on since it was read")


def mark_text(file: BinaryIO, position: int) -> int:
    """Return a checksum of the bytes before a position: a rewritten file has others there."""
    start = max(0, position - MARKED)
    file.seek(0)
    head = zlib.crc32(file.read(min(start, MARKED)))
    file.seek(start)
    return zlib.crc32(file.read(position - start), head)
