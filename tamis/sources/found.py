"""A file that a source has found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple


class Found(NamedTuple):
    """A file: its name under the folder, its path, size and inode, and what changes with it."""

    name: str
    path: str
    size: int
    inode: int | None
    state: tuple[Any, ...]


def found_of(name: str, path: str, about: Mapping[str, Any]) -> Found:
    """Return a file from what its file system knows of it."""
    times = ("mtime", "created", "modified", "LastModified", "updated", "ETag", "etag")
    size, inode = about["size"] or 0, about.get("ino")
    return Found(name, path, size, inode, (size, inode, *(str(about.get(key)) for key in times)))


def relative(path: str, start: str) -> str:
    """Return a file's name under the folder, so that offsets stay valid when the folder moves."""
    if path == start:
        return PurePosixPath(path).name
    folder = start if start.endswith("/") else start + "/"
    if path.startswith(folder):
        return path.removeprefix(folder)
    return path.removeprefix(str(PurePosixPath(start).parent) + "/")
