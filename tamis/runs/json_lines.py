"""JSON lines that are added and never changed, read while somebody writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MARKED = 64
"""Bytes before the place read up to that must be what they were, or the file is another one."""
Line = dict[str, Any]


def add_line(path: Path, record: Mapping[str, Any], sync: bool = False) -> int:
    """Add one line in one write, and return where it begins; `sync` waits until the disk has it.

    Half a line that a crash has left is ended first, so that it spoils no other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(record, allow_nan=False) + "\n").encode()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        if end:
            os.lseek(handle, end - 1, os.SEEK_SET)
            line = (b"" if os.read(handle, 1) == b"\n" else b"\n") + line
        if os.write(handle, line) != len(line):
            os.ftruncate(handle, end)
            raise OSError(f"{path.name}: the disk is full.")
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)
    return end + len(line) - len(line.lstrip(b"\n"))


def end_of(path: Path) -> int:
    """Say where a file ends, once the disk has it up to there; 0 where there is none."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return file.seek(0, os.SEEK_END)


def cut_back(path: Path, end: int) -> None:
    """Take back what was added to a file since it ended there."""
    if path.exists() and path.stat().st_size > end:
        with path.open("r+b") as file:
            file.truncate(end)


def read_lines(path: Path) -> list[Line]:
    """Read all lines that are whole; none where there is no file."""
    return Tail(path).read()


def parse_line(line: bytes) -> Line | None:
    """Read one line; None where it is no object of JSON, as after a crash."""
    try:
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


class Tail:
    """Gives the lines that have come since it was last asked, without half lines.

    Where the file was begun anew or cut back, `anew` is true after reading, and all that was given
    before is void: what is given then is all there is. `damaged` counts lines that are no JSON.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anew = False
        self.damaged = 0
        self._end = 0
        self._mark = b""
        self._seen: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Say whether there may be something new, which costs one look at the folder."""
        return self._look() != self._seen

    def read(self) -> list[Line]:
        """Return new lines, oldest first."""
        return [line for _, line in self.read_placed()]

    def read_placed(self) -> list[tuple[int, Line]]:
        """Return new lines with the byte that each begins at."""
        self.anew = False
        seen = self._look()
        if seen == self._seen:
            return []
        try:
            with self.path.open("rb") as file:
                return list(self._read(file.fileno(), seen))
        except FileNotFoundError:
            self._begin_anew()
            self._seen = ()
            return []

    def _read(self, handle: int, seen: tuple[int, ...]) -> Iterator[tuple[int, Line]]:
        start = max(0, self._end - MARKED)
        os.lseek(handle, start, os.SEEK_SET)
        content = read_all(handle)
        known = self._end - start
        if content[:known] != self._mark:
            self._begin_anew()
            os.lseek(handle, 0, os.SEEK_SET)
            start, known, content = 0, 0, read_all(handle)
        whole = content.rfind(b"\n") + 1
        place = start + known
        for line in content[known:whole].split(b"\n")[:-1] if whole > known else ():
            record = parse_line(line)
            if record is not None:
                yield place, record
            elif line.strip():
                self.damaged += 1
            place += len(line) + 1
        self._end = max(place, self._end)
        self._mark = content[: self._end - start][-MARKED:]
        self._seen = seen

    def _begin_anew(self) -> None:
        self.anew = self._end > 0
        self._end, self._mark = 0, b""

    def _look(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return ()
        return found.st_size, found.st_mtime_ns, found.st_ino


def read_all(handle: int) -> bytes:
    """Read to the end."""
    pieces = []
    while piece := os.read(handle, 2**20):
        pieces.append(piece)
    return b"".join(pieces)
