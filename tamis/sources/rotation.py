"""Finding a file again that was renamed, copied or compressed since it was read."""

from __future__ import annotations

import gzip
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

MOST_HELD = 128
"""Files held open while they are followed: what is written to a removed one is still read."""
KNOWN = re.compile(r"\.(csv|jsonl|ndjson|parquet)(?![a-z])")

Matches = Callable[[BinaryIO], bool]
"""Whether a file holds what was read of another."""


def kind_of(name: str) -> str:
    """Return the ending that names the format, also of a rotated file; empty where there is none.

    >>> kind_of("in/rows.jsonl.1.gz"), kind_of("rows.csv"), kind_of("rows.txt")
    ('.jsonl', '.csv', '')
    """
    found = KNOWN.findall(Path(name).name)
    return f".{found[-1]}" if found else ""


def open_any(path: str) -> BinaryIO:
    """Open a file, a compressed one too."""
    return cast(BinaryIO, gzip.open(path) if path.endswith(".gz") else Path(path).open("rb"))


def find_again(path: str, inode: int | None, known: set[str], matches: Matches) -> str | None:
    """Return the path beside `path` of the same file, or else of a copy of it."""
    folder, stem = Path(path).parent, Path(path).name.split(".")[0]
    if not folder.is_dir():
        return None
    others = [entry for entry in os.scandir(folder) if entry.path != path and entry.is_file()]
    same = [entry for entry in others if entry.inode() == inode]
    copies = [entry for entry in others if entry.name.startswith(stem) and entry not in same]
    for entry in [*same, *sorted(copies, key=lambda entry: entry.name)]:
        if entry.path in known or not kind_of(entry.name):
            continue
        try:
            with open_any(entry.path) as file:
                if matches(file):
                    return entry.path
        except (OSError, EOFError):  # removed since, or half compressed
            continue
    return None


class Held:
    """Files held open by their names, the latest of them."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, int] = OrderedDict()

    def add(self, name: str, file: BinaryIO) -> None:
        """Hold a file that is open elsewhere, and no longer the one before of that name."""
        self.drop(name)
        self._files[name] = os.dup(file.fileno())
        if len(self._files) > MOST_HELD:
            self.drop(next(iter(self._files)))

    def open(self, name: str, inode: int | None) -> BinaryIO | None:
        """Return a file that is held, from its beginning; None where it is another one."""
        handle = self._files.get(name)
        if handle is None or os.fstat(handle).st_ino != inode:
            return None
        file = os.fdopen(os.dup(handle), "rb")
        file.seek(0)
        return file

    def drop(self, name: str) -> None:
        """Close one."""
        if name in self._files:
            os.close(self._files.pop(name))

    def close(self) -> None:
        """Close all."""
        for name in list(self._files):
            self.drop(name)
