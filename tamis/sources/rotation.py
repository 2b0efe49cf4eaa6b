"""Finding a file again that was renamed, copied or compressed since it was read."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

MOST_HELD = 128
"""Files held open while they are followed: what is written to a removed one is still read."""
BEGINNING = 65_536
"""Bytes by which a copy is recognised."""
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


def name_before(name: str) -> str:
    """Return the name of a file before it was rotated: up to the ending of its format.

    >>> name_before("in/rows.jsonl.1.gz"), name_before("rows")
    ('in/rows.jsonl', 'rows')
    """
    ends = [found.end() for found in KNOWN.finditer(name)]
    return name[: ends[-1]] if ends else name


def open_any(path: str) -> BinaryIO:
    """Open a file; a compressed one is unpacked first, since going back in it takes long."""
    if not path.endswith(".gz"):
        return Path(path).open("rb")
    with gzip.open(path) as compressed:
        unpacked = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 (the caller closes it)
        try:
            shutil.copyfileobj(compressed, unpacked)
        except (OSError, EOFError) as error:
            unpacked.close()
            raise OSError(f"{path} cannot be unpacked: {error}") from None
    unpacked.seek(0)
    return unpacked


def still_named(base: str, offset: Mapping[str, Any]) -> set[int]:
    """Return the inodes of the files that are still under the names that they were read by.

    The inode of one that is gone may be that of another file by now.
    """
    found = set()
    for name, (_, _, inode) in offset.items():
        with suppress(OSError):
            if Path(base + name).stat().st_ino == inode:
                found.add(inode)
    return found


def find_again(path: str, inode: int | None, known: set[int], matches: Matches) -> str | None:
    """Return the path beside `path` of the same file, or else of a copy of it.

    `known` holds the inodes of other files that were read.
    """
    folder, stem = Path(path).parent, Path(path).name.split(".")[0]
    if not folder.is_dir():
        return None
    others = [entry for entry in os.scandir(folder) if entry.path != path and entry.is_file()]
    same = [entry for entry in others if entry.inode() == inode]
    copies = [entry for entry in others if entry.name.startswith(stem) and entry not in same]
    for entry in [*same, *sorted(copies, key=lambda entry: entry.name)]:
        if entry.inode() in known or not kind_of(entry.name):
            continue
        try:
            with open_any(entry.path) as file:
                if matches(file):
                    return entry.path
        except OSError:  # removed since, or half compressed
            continue
    return None


def find_unread(path: str, since: int, known: set[int]) -> list[str]:
    """Return files rotated from `path`, all of them, since a time: nobody read them under its name.

    `known` holds the inodes of files that were read. A copy of `path` as it is now is no such file.
    """
    found = [
        (entry.stat().st_mtime_ns, entry.path)
        for entry in os.scandir(Path(path).parent)
        if is_rotated(entry.path, path) and entry.is_file()
        if entry.inode() not in known and entry.stat().st_mtime_ns >= since
    ]
    return [rotated for _, rotated in sorted(found) if not same_beginning(rotated, path)]


def is_rotated(path: str, of: str) -> bool:
    """Return whether a file has the name of another, with a number or a date.

    >>> [is_rotated(name, "rows.jsonl") for name in ("rows.jsonl.1.gz", "rows-20260101.jsonl")]
    [True, True]
    >>> [is_rotated(name, "rows.jsonl") for name in ("rows.jsonl", "rows.jsonl.bak", "rows2.jsonl")]
    [False, False, False]
    """
    one, other = Path(path), Path(of)
    stem, _, ending = map(re.escape, other.name.partition("."))
    date = r"[._-]\d[\d._-]*"
    name = rf"{stem}(\.{ending}{date}|{date}\.{ending})(\.gz)?"
    return one.parent == other.parent and re.fullmatch(name, one.name) is not None


def same_beginning(path: str, other: str) -> bool:
    """Return whether one file is a copy of another, going by the beginning of both."""
    try:
        with open_any(path) as one, open_any(other) as two:
            first, second = one.read(BEGINNING), two.read(BEGINNING)
    except OSError:
        return False
    return bool(second) and (first.startswith(second) or second.startswith(first))


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

    def open(self, name: str, inode: int | None, matches: Matches) -> BinaryIO | None:
        """Return a file that is held; None where it is another one, or was truncated since."""
        handle = self._files.get(name)
        if handle is None or os.fstat(handle).st_ino != inode:
            return None
        file = os.fdopen(os.dup(handle), "rb")
        if not matches(file):
            file.close()
            return None
        return file

    def drop(self, name: str) -> None:
        """Close one."""
        if name in self._files:
            os.close(self._files.pop(name))

    def close(self) -> None:
        """Close all."""
        for name in list(self._files):
            self.drop(name)
