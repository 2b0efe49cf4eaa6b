"""Files of blocks beside the generations of a folder: what did not change is not written again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tamis.checkpoint.blocks import Blocks, HeldBlocks, SavedBlocks, checksums, memory_of, runs
from tamis.checkpoint.files import DamagedFileError, make_folder
from tamis.checkpoint.manifest import TENSORS
from tamis.checkpoint.packing import MARKED, PLACES, SUMS, TYPES

ENDING = ".blocks"
PLAIN = re.compile(r"(/[A-Za-z0-9_ -]+)+")
"""Names of tensors that a file may be named after."""


class BlockFiles:
    """Writes blocks that have changed to places that no generation refers to.

    So a generation stays as it is until it is removed, whenever the process is killed. A place is
    free again once every generation that refers to it is gone: the generations on disk are read,
    and nothing is remembered that a crash could lose.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(
        self, tensors: Mapping[str, Tensor | HeldBlocks], generations: Sequence[Path]
    ) -> dict[str, Tensor]:
        """Return the tensors; in place of rows in blocks, once the disk has them, their tables."""
        found: dict[str, Tensor] = {}
        for name, given in tensors.items():
            if isinstance(given, Tensor):
                found[name] = given
                continue
            blocks, count = given.blocks, -(-len(given) // given.blocks.per_block)
            self._write(self._path(name), blocks, count, referred(name, generations))
            found[name + PLACES] = blocks.places[:count]
            found[name + SUMS] = blocks.sums[:count]
        return found

    def open(self, packed: Any, tensors: Mapping[str, Tensor]) -> dict[str, SavedBlocks]:
        """Return the rows in blocks of a packed state, by name; none is read yet."""
        found = {}
        for name, shape, kind in marked(packed):
            places, sums = tensors[name + PLACES], tensors[name + SUMS]
            saved = SavedBlocks(self, self._path(name), shape, kind, places, sums)
            count = -(-len(saved) // saved.per_block)
            for table in (places, sums):
                if table.dtype != torch.long or table.shape != (count,):
                    raise DamagedFileError(f"the table of {name} does not fit it")
            if count and not 0 <= int(places.min()) <= int(places.max()) < self._size(saved):
                raise DamagedFileError(f"{saved.path.name} lacks blocks, or is not there")
            found[name] = saved
        return found

    def clear(self) -> None:
        """Remove all files of blocks."""
        for path in self.folder.glob(f"*{ENDING}"):
            path.unlink(missing_ok=True)

    def _write(self, path: Path, blocks: Blocks, count: int, kept: Tensor) -> None:
        """Write what has changed of so many blocks; an error leaves all as it was."""
        if blocks.home is not self or not path.exists():
            blocks.forget()
        changed = blocks.changed[:count].nonzero()[:, 0]
        make_folder(self.folder)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "r+b") as file:
            size = os.fstat(handle).st_size // blocks.block_bytes
            own = blocks.places[:count][~blocks.changed[:count]]
            used = torch.cat([own, kept[(kept >= 0) & (kept < size)]])
            places = free_places(used, len(changed))
            last = max((int(part.max()) for part in (used, places) if len(part)), default=-1)
            file.truncate((last + 1) * blocks.block_bytes)
            sums = write_blocks(file, blocks, changed, places)
            file.flush()
            os.fsync(handle)
            if hasattr(os, "posix_fadvise"):  # these are not read again, and the rows held are
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        blocks.keep(self, changed, places, sums)

    def _path(self, name: str) -> Path:
        if not PLAIN.fullmatch(name):
            raise DamagedFileError(f"no file of blocks can be named after {name!r}")
        return self.folder / (name[1:].replace("/", ".") + ENDING)

    def _size(self, saved: SavedBlocks) -> int:
        """Return how many blocks the file has."""
        with suppress(OSError):
            return saved.path.stat().st_size // saved.block_bytes
        return 0


def write_blocks(file: BinaryIO, blocks: Blocks, changed: Tensor, places: Tensor) -> Tensor:
    """Write blocks to their places, and return their checksums."""
    memory, size = memory_of(blocks.rows), blocks.block_bytes
    sums = [torch.empty(0, dtype=torch.long)]
    for block, place, count in runs(changed, places, size):
        blocks.prefetch(slice(block * blocks.per_block, (block + count) * blocks.per_block))
        piece = memory[block * size : (block + count) * size]
        file.seek(place * size)
        file.write(piece)
        sums.append(checksums(piece, size))
    return torch.cat(sums)


def free_places(used: Tensor, count: int) -> Tensor:
    """Return the first places that are not used.

    >>> free_places(torch.tensor([0, 3, 1]), 3)
    tensor([2, 4, 5])
    """
    taken = torch.zeros(int(used.max()) + 1 + count if len(used) else count, dtype=torch.bool)
    taken[used] = True
    return (~taken).nonzero()[:count, 0]


def referred(name: str, generations: Sequence[Path]) -> Tensor:
    """Return the places that generations on disk refer to; of one that is damaged, none."""
    from safetensors import SafetensorError, safe_open

    found = [torch.empty(0, dtype=torch.long)]
    for folder in generations:
        with (
            suppress(SafetensorError, OSError),
            safe_open(folder / TENSORS, framework="pt") as file,
        ):
            if name + PLACES in file.keys():  # noqa: SIM118
                found.append(file.get_tensor(name + PLACES).long().flatten())
    return torch.cat(found)


def marked(packed: Any) -> Iterator[tuple[str, torch.Size, torch.dtype]]:
    """Yield name, shape and type of all rows in blocks of a packed state."""
    for item in packed.values() if isinstance(packed, dict) else packed:
        if isinstance(item, dict) and MARKED in item:
            try:
                shape, kind = item["shape"], TYPES[item["kind"]]
                if not shape or any(type(size) is not int or size < 0 for size in shape):
                    raise TypeError
            except (KeyError, TypeError):
                raise DamagedFileError("its state has rows in blocks of no shape") from None
            yield str(item[MARKED]), torch.Size(shape), kind
        elif isinstance(item, dict | list):
            yield from marked(item)


def blank_blocks(packed: Any) -> dict[str, Tensor]:
    """Return tensors in place of rows in blocks that take no memory, to be checked first."""
    return {
        name: torch.empty(shape, dtype=kind, device="meta") for name, shape, kind in marked(packed)
    }
