"""Rows in a file that is mapped into memory: the system keeps in memory what is being read."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

import torch
from torch import Tensor

from tamis.checkpoint import Blocks, make_folder
from tamis.checkpoint.blocks import memory_of, row_bytes, rows_per_block
from tamis.errors import TamisError

READERS = 32
"""Threads that read rows, and so requests that a disk has at once."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskSpaceError(TamisError):
    """A disk without room for the rows of a buffer."""


class MappedRows(Blocks):
    """Rows of a fixed number in a file without a name, which is gone with the process.

    It is written in place, and so nothing that a checkpoint refers to lies in it. All of it is
    allocated at once: a disk that is full is noticed here, and not by a signal at some later write.

    Parameters
    ----------
    folder: on whose disk the file is.
    capacity: number of rows.
    like: rows of the same shape and type.
    """

    def __init__(self, folder: Path, capacity: int, like: Tensor) -> None:
        if not like.is_cpu:
            raise ValueError("Rows on disk are for models on the CPU: leave out `disk`.")
        shape, kind = (capacity, *like.shape[1:]), like.dtype
        per_block, width = rows_per_block(shape, kind), row_bytes(shape, kind)
        rows = -(-capacity // per_block) * per_block
        self._handle, self._map = map_file(folder, max(1, rows * width))
        finalize(self, os.close, self._handle)
        flat = torch.frombuffer(self._map, dtype=kind, count=rows * width // kind.itemsize)
        super().__init__(flat.view(rows, *shape[1:]))

    def write(self, rows: Tensor | slice, given: Tensor) -> None:
        """Put others in the place of rows."""
        self.mark(rows)
        place = self.rows[rows]
        if isinstance(rows, slice) and place.shape == given.shape and hasattr(os, "pwrite"):
            # Through the map, the system would first read every page that is written.
            memory = memory_of(given.detach().to(place))
            at = rows.start * row_bytes(self.rows.shape, self.rows.dtype)
            while len(memory):
                done = os.pwrite(self._handle, memory, at)
                memory, at = memory[done:], at + done
        else:
            self.rows[rows] = given

    def prefetch(self, rows: Tensor | slice) -> None:
        """Read these rows at once; when they are used one by one, each would wait for the disk."""
        if isinstance(rows, slice) and hasattr(mmap, "MADV_WILLNEED"):
            width = row_bytes(self.rows.shape, self.rows.dtype)
            first, last, _ = rows.indices(len(self.rows))
            start = first * width // mmap.PAGESIZE * mmap.PAGESIZE
            if last * width > start:
                self._map.madvise(mmap.MADV_WILLNEED, start, last * width - start)

    def take(self, rows: Tensor) -> Tensor:
        """Return a copy of rows at any places; the disk gets many requests at once."""
        width = row_bytes(self.rows.shape, self.rows.dtype)
        if not hasattr(os, "preadv") or not len(rows) or not width:
            return self.rows[rows]
        taken = torch.empty(len(rows), *self.rows.shape[1:], dtype=self.rows.dtype)
        memory = memory_of(taken)
        pieces = (memory[at : at + width] for at in range(0, len(memory), width))
        read_all(self._handle, list(zip(rows.tolist(), pieces, strict=True)), width)
        return taken

    @contextmanager
    def read_in_order(self) -> Iterator[None]:
        """Read ahead while rows are moved."""
        if not hasattr(mmap, "MADV_RANDOM"):
            yield
            return
        self._map.madvise(mmap.MADV_NORMAL)
        try:
            yield
        finally:
            self._map.madvise(mmap.MADV_RANDOM)


@cache
def readers() -> ThreadPoolExecutor:
    """Return the threads that read rows."""
    return ThreadPoolExecutor(READERS, "tamis reads rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=readers.cache_clear)  # a child has none of the threads


def read_all(handle: int, wanted: list[tuple[int, memoryview]], width: int) -> None:
    """Read rows of a file, each into its place; what is not in memory by many threads.

    Threads that read are steadier than `MADV_WILLNEED` for single rows, which on some machines
    takes a second now and then, and need no page of the map.
    """
    absent = [one for one in wanted if not read_from_memory(handle, *one, width)]
    absent.sort(key=lambda one: one[0])

    def read(part: list[tuple[int, memoryview]]) -> None:
        for row, place in part:
            done = 0
            while done < width:
                done += os.preadv(handle, [place[done:]], row * width + done)

    if absent:
        list(readers().map(read, [absent[first::READERS] for first in range(READERS)]))


def read_from_memory(handle: int, row: int, place: memoryview, width: int) -> bool:
    """Read a row, and return True, if that needs no waiting for the disk."""
    try:
        return os.preadv(handle, [place], row * width, getattr(os, "RWF_NOWAIT", 0)) == width
    except OSError:
        return False


def map_file(folder: Path, size: int) -> tuple[int, mmap.mmap]:
    """Return the handle of a new file without a name, allocated, and its map."""
    make_folder(folder)
    with TemporaryFile(dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise DiskSpaceError(
                f"Rows on disk take {size / 1e9:.1f} GB in {folder}, and there is no room for them:"
                " choose a smaller capacity."
            ) from None
        found = mmap.mmap(file.fileno(), size)
        if hasattr(mmap, "MADV_RANDOM"):  # or the system reads megabytes where a row is wanted
            found.madvise(mmap.MADV_RANDOM)
        return os.dup(file.fileno()), found
