"""Rows in blocks: where each block was last saved, and which have changed since."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tamis.checkpoint.files import DamagedFileError, open_plain

BLOCK = 4096
"""Bytes of a block at the most, unless one row has more: disks write no less at a time."""
PIECE = 2**22
"""Bytes read or written at once."""
NOWHERE = -1


class Blocks:
    """Rows that lie one after another, in blocks. A checkpoint writes the blocks that have changed.

    Whoever changes rows calls `mark`. `home` is where blocks were saved, None before. The rows must
    fill the last block.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.per_block = rows_per_block(rows.shape, rows.dtype)
        self.block_bytes = self.per_block * row_bytes(rows.shape, rows.dtype)
        count = len(rows) // self.per_block
        self.home: object = None
        self.places = torch.full((count,), NOWHERE)
        self.sums = torch.zeros(count, dtype=torch.long)
        self.changed = torch.ones(count, dtype=torch.bool)

    def mark(self, rows: Tensor | slice) -> None:
        """Note that these rows change."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self.rows))
            self.changed[first // self.per_block : -(-last // self.per_block)] = True
        else:
            self.changed[rows // self.per_block] = True

    def first(self, count: int) -> HeldBlocks:
        """Return the first rows, as a state has them."""
        return HeldBlocks(self, count)

    def forget(self) -> None:
        """Forget where blocks were saved: all of them are to be written again."""
        self.places.fill_(NOWHERE)
        self.changed.fill_(True)
        self.home = None

    def keep(self, home: object, blocks: Tensor | slice, places: Tensor, sums: Tensor) -> None:
        """Note that the disk has these blocks."""
        self.home = home
        self.places[blocks], self.sums[blocks], self.changed[blocks] = places, sums, False

    def prefetch(self, rows: Tensor | slice) -> None:
        """Read rows that are about to be used, where that takes time."""


class HeldBlocks:
    """The first rows of `Blocks`, in the place of a tensor of a state."""

    def __init__(self, blocks: Blocks, count: int) -> None:
        self.blocks = blocks
        self.rows = blocks.rows[:count]
        self.shape, self.dtype = self.rows.shape, self.rows.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """Yield all rows, some at a time, with the number of the first."""
        for part in slices(self.rows, PIECE):
            yield part.start, self.rows[part]


class SavedBlocks:
    """Rows of a checkpoint, read block by block and checked against the checksum of each.

    Parameters
    ----------
    home: which wrote them.
    path: the file of blocks.
    shape: that of all rows.
    dtype: that of the rows.
    places: where in the file each block is, in blocks.
    sums: the CRC-32 of each block.
    """

    def __init__(
        self,
        home: object,
        path: Path,
        shape: torch.Size,
        dtype: torch.dtype,
        places: Tensor,
        sums: Tensor,
    ) -> None:
        self.home, self.path = home, path
        self.shape, self.dtype = shape, dtype
        self.places, self.sums = places, sums
        self.per_block = rows_per_block(shape, dtype)
        self.block_bytes = self.per_block * row_bytes(shape, dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def first(self, count: int) -> SavedBlocks:
        """Return the first rows."""
        shape = torch.Size((min(count, len(self)), *self.shape[1:]))
        blocks = -(-shape[0] // self.per_block)
        tables = self.places[:blocks], self.sums[:blocks]
        return SavedBlocks(self.home, self.path, shape, self.dtype, *tables)

    def read(self, most: int) -> Tensor:
        """Return the first rows."""
        saved = self.first(most)
        rows = torch.empty(saved.shape, dtype=self.dtype)
        for first, part in saved.pieces():
            rows[first : first + len(part)] = part
        return rows

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """Yield all rows, some at a time, with the number of the first.

        Raise `DamagedFileError` where a block is not what was written.
        """
        order = self.places.argsort()  # the file is read from its beginning to its end
        with open_plain(self.path) as file:
            for block, place, count in runs(order, self.places[order], self.block_bytes):
                file.seek(place * self.block_bytes)
                piece = bytearray(count * self.block_bytes)
                if file.readinto(piece) < len(piece):  # type: ignore[attr-defined]
                    raise DamagedFileError(f"{self.path.name} ends before block {place + count}")
                self._check(place, piece, self.sums[block : block + count])
                first = block * self.per_block
                rows = torch.frombuffer(piece, dtype=self.dtype).view(-1, *self.shape[1:])
                yield first, rows[: len(self) - first]

    def _check(self, place: int, piece: bytearray, sums: Tensor) -> None:
        found = checksums(memoryview(piece), self.block_bytes)
        wrong = (found != sums).nonzero()
        if len(wrong):
            raise DamagedFileError(
                f"{self.path.name} is not what was written: the checksum of block"
                f" {place + int(wrong[0])} differs"
            )


def memory_of(rows: Tensor) -> memoryview:
    """Return the bytes of rows."""
    return memoryview(rows.contiguous().view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]


def row_bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the bytes of a row."""
    return prod(shape[1:]) * dtype.itemsize


def rows_per_block(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the rows of a block: as many as fit into `BLOCK` bytes, at least one."""
    return max(1, BLOCK // max(1, row_bytes(shape, dtype)))


def slices(rows: Tensor, most_bytes: int) -> Iterator[slice]:
    """Yield slices of all rows, each of so many bytes at the most, or of one row."""
    most = max(1, most_bytes * len(rows) // max(1, rows.nbytes))
    return (slice(at, at + most) for at in range(0, len(rows), most))


def checksums(piece: memoryview, block_bytes: int) -> Tensor:
    """Return the CRC-32 of every block."""
    starts = range(0, len(piece), block_bytes)
    return torch.tensor([zlib.crc32(piece[at : at + block_bytes]) for at in starts])


def runs(blocks: Tensor, places: Tensor, block_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield runs of neighbours that are neighbours in the file too: block, place and how many.

    >>> list(runs(torch.tensor([0, 1, 5, 6]), torch.tensor([3, 4, 5, 6]), 4096))
    [(0, 3, 2), (5, 5, 2)]
    """
    if not len(blocks):
        return
    ours, theirs = blocks.numpy(), places.numpy()
    apart = (np.diff(ours) != 1) | (np.diff(theirs) != 1)
    starts = [0, *(apart.nonzero()[0] + 1).tolist(), len(ours)]
    most = max(1, PIECE // block_bytes)
    for first, last in pairwise(starts):
        for at in range(first, last, most):
            yield int(ours[at]), int(theirs[at]), min(most, last - at)
