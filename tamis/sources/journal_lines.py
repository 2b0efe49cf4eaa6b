"""Lines of a journal: JSON, each with its number and a checksum, and files of such lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from tamis.checkpoint.files import sync_folder

ENDING = ".jsonl"
NAME = re.compile(r"\d{16}" + re.escape(ENDING))
LINE = re.compile(rb'\{"n": (\d{1,16}), "crc": "([0-9a-f]{8})", "record": (.*)\}\n', re.DOTALL)
PIECE = 2**20


class Line(NamedTuple):
    """A line that is as it was written: its number and its record."""

    number: int
    record: Any


class Segment(NamedTuple):
    """A file of lines; its name is the number of its first line."""

    path: Path

    @property
    def first(self) -> int:
        """Number of the first line."""
        return int(self.path.name.removesuffix(ENDING))


def encode_record(record: Any) -> bytes:
    """Return a record as JSON on one line; raise ValueError where it is not JSON."""
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode()


def write_line(number: int, text: bytes) -> bytes:
    """Return the line of a record; the checksum is over its number as well.

    >>> write_line(7, b'{"id":"a"}')
    b'{"n": 7, "crc": "13f86146", "record": {"id":"a"}}\\n'
    """
    return b'{"n": %d, "crc": "%08x", "record": %s}\n' % (number, checksum(number, text), text)


def read_line(line: bytes) -> Line | None:
    """Return what a line holds; None where it is not as it was written."""
    found = LINE.fullmatch(line)
    if not found:
        return None
    number, text = int(found[1]), found[3]
    if int(found[2], 16) != checksum(number, text):
        return None
    try:
        return Line(number, json.loads(text))
    except (ValueError, RecursionError):
        return None


def checksum(number: int, text: bytes) -> int:
    """Return the CRC-32 of a number and a text."""
    return crc32(text, crc32(b"%d" % number))


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a folder in order."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [Segment(path) for path in paths if NAME.fullmatch(path.name)]


def create_segment(folder: Path, first: int) -> Segment:
    """Create an empty file that only its owner may read, in place of one of the same number."""
    path = folder / f"{first:016d}{ENDING}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    sync_folder(folder)
    return Segment(path)


def lines_of(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from one byte to another, each with the byte after it.

    The last one lacks its line end where it was not written to its end.
    """
    rest = b""
    with path.open("rb") as file:
        file.seek(start)
        while piece := file.read(PIECE if end is None else min(PIECE, end - file.tell())):
            *complete, rest = (rest + piece).split(b"\n")
            for line in complete:
                start += len(line) + 1
                yield start, line + b"\n"
        if rest:
            yield start + len(rest), rest


class Ending(NamedTuple):
    """Where a segment ends: the number that follows, its bytes, and how many were cut off."""

    number: int
    size: int
    cut: int


def cut_torn_end(segment: Segment) -> Ending:
    """Cut off the last line where it was not written to its end, and return where all ends now.

    A complete line that is damaged stays, and counts as one: it is to be reported.
    """
    number, size, total = segment.first, 0, 0
    for end, line in lines_of(segment.path):
        total = end
        if line.endswith(b"\n"):
            found = read_line(line)
            number, size = (found.number if found else number) + 1, end
    if total > size:
        with segment.path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())
    return Ending(number, size, total - size)
