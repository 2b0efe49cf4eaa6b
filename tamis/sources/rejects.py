"""Rows and records that cannot be trained on: counted by reason, and kept in a file."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from reprlib import Repr
from typing import Any

MAX_CHARS = 2_000
"""Characters kept of a record whose form is unknown, and of the detail of a reason."""


class Rejects:
    """Counts rejected rows by reason and, given a `path`, writes one JSON line for each.

    A line holds the `position` (a row's id, or where a source found the record), the `reason`, its
    `detail` and the `record`. It is written through at once. A file that reaches `max_bytes` is
    renamed with a number; the newest `backups` of those are kept. Records are as private as the
    data, so only the owner may read the file. A disk that is full is warned of once and counted in
    `unwritten`; training goes on.

    >>> rejects = Rejects()
    >>> rejects.add(7, "label missing")
    >>> rejects.summary()
    '1 row rejected: 1 x label missing.'
    """

    def __init__(
        self, path: Path | None = None, *, max_bytes: int = 10_000_000, backups: int = 2
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.backups = backups
        self.counts: Counter[str] = Counter()
        self.unwritten = 0
        self._torn = False

    @property
    def total(self) -> int:
        """Rows rejected since the run began."""
        return self.counts.total()

    def add(self, position: Any, reason: str, detail: str = "", record: Any = None) -> None:
        """Count one row and write its line; `record` is any JSON, or None to leave it out."""
        self.counts[reason] += 1
        if self.path is None:
            return
        line = {"position": position, "reason": reason}
        line |= {"detail": detail[:MAX_CHARS]} if detail else {}
        line |= {} if record is None else {"record": record}
        text = ("\n" if self._torn else "") + json.dumps(line, default=abbreviate) + "\n"
        try:
            self._torn = self._append(self.path, text.encode()) < len(text)
            fault = "the disk is full" if self._torn else ""
        except OSError as error:
            fault = str(error)
        if fault:
            if not self.unwritten:
                warnings.warn(f"Rejected rows cannot be written: {fault}.", stacklevel=2)
            self.unwritten += 1

    def summary(self) -> str:
        """Return one sentence with the number of rows and the reasons, most frequent first."""
        if not self.total:
            return "No row rejected."
        reasons = "; ".join(f"{count} x {reason}" for reason, count in self.counts.most_common())
        return f"{self.total} row{'s' if self.total > 1 else ''} rejected: {reasons}."

    def clear(self) -> None:
        """Forget the counts, and remove the files of an earlier run."""
        self.counts.clear()
        for path in self._files():
            path.unlink(missing_ok=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts and the size of the file, as JSON."""
        exists = self.path is not None and self.path.is_file()
        size = self.path.stat().st_size if self.path and exists else 0
        return {"counts": dict(self.counts), "bytes": size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts, and cut lines written since: those rows will be read again."""
        size = max(0, state["bytes"])
        self.counts = Counter(state["counts"])
        if self.path and self.path.is_file() and self.path.stat().st_size > size:
            os.truncate(self.path, size)

    def _files(self) -> list[Path]:
        """Return the path of the file and of its backups, newest first."""
        if self.path is None:
            return []
        numbered = [self.path.with_name(f"{self.path.name}.{n + 1}") for n in range(self.backups)]
        return [self.path, *numbered]

    def _append(self, path: Path, line: bytes) -> int:
        """Return how many bytes of the line the disk took."""
        if path.exists() and path.stat().st_size >= self.max_bytes:
            self._rotate()
        path.parent.mkdir(parents=True, exist_ok=True)
        with io.FileIO(path, "a", opener=owned) as file:
            return file.write(line)

    def _rotate(self) -> None:
        """Rename the full file and its backups; the oldest is overwritten."""
        files = self._files()
        for newer, older in reversed(list(pairwise(files))):
            if newer.exists():
                newer.replace(older)
        if len(files) == 1:
            files[0].unlink()


def owned(name: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(name, flags, 0o600)


def abbreviate(record: Any) -> str:
    """Return a short text of a record, whatever it is."""
    if isinstance(record, bytes | bytearray | str):
        record = record[:MAX_CHARS]
    try:
        return SHORT.repr(record)[:MAX_CHARS]
    except Exception as error:  # the repr of an unknown object may fail
        return f"<{type(record).__name__} without a repr: {type(error).__name__}>"


SHORT = Repr()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = MAX_CHARS
SHORT.maxdict = SHORT.maxlist = SHORT.maxtuple = 50
