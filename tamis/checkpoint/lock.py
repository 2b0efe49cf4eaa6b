"""Locks that end with the process that holds them, so that a crash leaves none behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IN_USE = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Errors of a lock that another holds; others are those of a file system without locks."""


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is created where it does not exist.

    Without `wait`, `BlockingIOError` is raised where another holds the lock, in this process or in
    any other. A file system that has no locks stops nobody then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            lock(handle, wait)
        except OSError as error:
            if wait:
                raise
            if error.errno in IN_USE:
                raise BlockingIOError(error.errno, error.strerror, str(path)) from None
        yield
    finally:
        os.close(handle)


def lock(handle: int, wait: bool) -> None:
    """Lock an open file; raise where that is not possible, or would take a wait."""
    module: Any
    if os.name == "nt":
        import msvcrt as module

        module.locking(handle, module.LK_LOCK if wait else module.LK_NBLCK, 1)
    else:
        import fcntl as module

        module.flock(handle, module.LOCK_EX | (0 if wait else module.LOCK_NB))
