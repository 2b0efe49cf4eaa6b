"""A file of the records that could not be used: where each was, why, and what it looked like."""

from __future__ import annotations

import io
import json
import os
import warnings
from pathlib import Path
from reprlib import Repr
from typing import Any

SHOWN = 2_000
"""Characters of a record that are kept."""


class DeadLetters:
    """One JSON line a record, written through at once; old files are turned out.

    A file that comes to `most_bytes` is renamed with a number, and `kept` of those stay. Records
    are as private as the data they come from, so only the owner may read them. A disk that takes
    no more is warned of once, and counted in `unwritten`: training goes on.
    """

    def __init__(self, path: Path, most_bytes: int = 10_000_000, kept: int = 2) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.kept = kept
        self.unwritten = 0
        self._file: io.FileIO | None = None
        self._torn = False

    def write(self, place: Any, reason: str, record: Any) -> None:
        """Put a record down."""
        line = {"offset": place, "reason": reason[:SHOWN], "record": show(record)}
        whole = ("\n" if self._torn else "") + json.dumps(line, default=show) + "\n"
        try:
            self._torn = self._open().write(whole.encode()) < len(whole)
            fault = "the disk is full" if self._torn else ""
        except OSError as error:
            fault = str(error)
        if fault:
            if not self.unwritten:
                warnings.warn(f"Dead letters cannot be written: {fault}.", stacklevel=2)
            self.unwritten += 1

    def close(self) -> None:
        """Close the file; the next letter opens it again."""
        if self._file:
            self._file.close()
            self._file = None

    def _open(self) -> io.FileIO:
        if self._file and self._file.tell() >= self.most_bytes:
            self.close()
            self._turn()
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = io.FileIO(
                self.path, "a", opener=lambda name, flags: os.open(name, flags, 0o600)
            )
        return self._file

    def _turn(self) -> None:
        """Rename a full file, and those before it."""
        numbered = [self.path.with_name(f"{self.path.name}.{n}") for n in range(1, self.kept + 1)]
        for older, newer in reversed(list(zip(numbered, [self.path, *numbered], strict=False))):
            if newer.exists():
                newer.replace(older)
        if not numbered:
            self.path.unlink()


def show(record: Any) -> str:
    """Write a record down in a few characters, whatever it is."""
    if isinstance(record, bytes | bytearray | str):
        record = record[:SHOWN]
    try:
        return BRIEF.repr(record)[:SHOWN]
    except Exception as error:  # a stranger's object may fail at showing itself, too
        return f"<{type(record).__name__} that cannot be shown: {type(error).__name__}>"


BRIEF = Repr()
BRIEF.maxstring = BRIEF.maxother = BRIEF.maxlong = SHOWN
BRIEF.maxdict = BRIEF.maxlist = BRIEF.maxtuple = 50
