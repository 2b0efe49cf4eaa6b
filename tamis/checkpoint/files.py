"""Files that are complete after a crash, and reading that trusts nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tamis.errors import TamisError

MOST_JSON = 2**24
"""Bytes of JSON that are read at the most; a state keeps its numbers in tensors."""
PIECE = 2**20


class DamagedFileError(TamisError, ValueError):
    """A file that is not what was written."""


class Seal(NamedTuple):
    """The size and SHA-256 that a file must have."""

    size: int
    sha256: str


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file so that a crash leaves the old one or the new one, each complete.

    Only its owner may read a `private` one.
    """
    with replacing(path, private=private) as part:
        write_synced(part, [content])


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a path to write to; what is there and synced at the end takes the place of the file.

    An error removes it: half a file would keep a full disk full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    if private:
        part.unlink(missing_ok=True)
        part.touch(0o600)
    try:
        yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(path)
    sync_folder(path.parent)


def write_synced(path: Path, pieces: Iterable[bytes | memoryview]) -> Seal:
    """Write pieces in order; return size and SHA-256 once the disk has them."""
    size, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return Seal(size, digest.hexdigest())


def sync_folder(path: Path) -> None:
    """Return once the disk has the names in a folder."""
    if os.name == "nt":  # which opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Create a folder and its parents so that a crash does not lose its name."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


@contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file for reading: no link is followed, no pipe or device waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise DamagedFileError(f"{path.name} cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamagedFileError(f"{path.name} is not a plain file")
    with os.fdopen(handle, "rb") as file:
        yield file


def size_of(file: BinaryIO) -> int:
    """Return the bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def check_seal(name: str, file: BinaryIO, seal: Seal) -> None:
    """Raise where size or content of a file is not what was written; read a piece at a time."""
    if size_of(file) != seal.size:
        raise DamagedFileError(f"{name} has {size_of(file)} bytes where {seal.size} were written")
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    if digest.hexdigest() != seal.sha256:
        raise DamagedFileError(f"{name} is not what was written: its SHA-256 differs")
    file.seek(0)


def read_bounded(name: str, file: BinaryIO) -> bytes:
    """Return the content of a file that can only be small."""
    if size_of(file) > MOST_JSON:
        raise DamagedFileError(
            f"{name} has {size_of(file)} bytes, more than that of any checkpoint"
        )
    return file.read(MOST_JSON)


def parse(name: str, content: bytes) -> Any:
    """Return the value of JSON; raise `DamagedFileError` where it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise DamagedFileError(f"{name} holds no readable JSON") from None
