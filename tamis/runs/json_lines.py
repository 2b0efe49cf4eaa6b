"""Append-only files of JSON lines, safe to read while another process writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MARKED = 64
"""Bytes before the end of what was read. If they change, the file was replaced."""
JsonObject = dict[str, Any]


def add_line(path: Path, record: Mapping[str, Any], sync: bool = False) -> int:
    """Append one line in one write, and return its offset; `sync` waits for the disk.

    Half a line that a crash has left is ended first, so that it damages no other. Lines may hold
    rows, so a file that is made here is for its owner only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(record, allow_nan=False) + "\n").encode()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
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


def synced_size(path: Path) -> int:
    """Return the size of a file, once the disk has all of it; 0 where it does not exist."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return file.seek(0, os.SEEK_END)


def truncate(path: Path, size: int) -> None:
    """Remove what was appended to a file beyond a size."""
    if path.exists() and path.stat().st_size > size:
        with path.open("r+b") as file:
            file.truncate(size)


def read_lines(path: Path) -> list[JsonObject]:
    """Return all complete lines; an empty list where the file does not exist."""
    return Tail(path).read()


def parse_line(line: bytes) -> JsonObject | None:
    """Parse one line; None where it is not a JSON object, as after a crash."""
    try:
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


class Tail:
    """Reads the complete lines that a file has gained since the last read.

    Where the file was replaced or truncated, `reset` is true after a read: what was read before is
    void, and the lines returned are all there are. `damaged` counts lines that are not JSON.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reset = False
        self.damaged = 0
        self._end = 0
        self._mark = b""
        self._seen: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Return whether there may be new lines, at the price of one `stat`."""
        return self._stat() != self._seen

    def read(self) -> list[JsonObject]:
        """Return new lines, oldest first."""
        return [line for _, line in self.read_with_offsets()]

    def read_with_offsets(self) -> list[tuple[int, JsonObject]]:
        """Return new lines, each with its offset in bytes."""
        self.reset = False
        seen = self._stat()
        if seen == self._seen:
            return []
        try:
            with self.path.open("rb") as file:
                return list(self._read(file.fileno(), seen))
        except FileNotFoundError:
            self._restart()
            self._seen = ()
            return []

    def _read(self, handle: int, seen: tuple[int, ...]) -> Iterator[tuple[int, JsonObject]]:
        start = max(0, self._end - MARKED)
        os.lseek(handle, start, os.SEEK_SET)
        content = read_all(handle)
        known = self._end - start
        if content[:known] != self._mark:
            self._restart()
            os.lseek(handle, 0, os.SEEK_SET)
            start, known, content = 0, 0, read_all(handle)
        complete = content.rfind(b"\n") + 1
        offset = start + known
        for line in content[known:complete].split(b"\n")[:-1] if complete > known else ():
            record = parse_line(line)
            if record is not None:
                yield offset, record
            elif line.strip():
                self.damaged += 1
            offset += len(line) + 1
        self._end = max(offset, self._end)
        self._mark = content[: self._end - start][-MARKED:]
        self._seen = seen

    def _restart(self) -> None:
        self.reset = self._end > 0
        self._end, self._mark = 0, b""

    def _stat(self) -> tuple[int, ...]:
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


def int_or_none(value: object) -> int | None:
    """Return an integer as it is, and None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
