"""Columns of pictures: paths of files, or their bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tamis.sources.pictures import (
    ENDINGS,
    Header,
    PictureFiles,
    StoredPicture,
    check_pillow,
    decode,
    header_of,
    without_warnings,
)
from tamis.sources.protocol import BadRecordError
from tamis.sources.schema.cells import Cells, is_absent
from tamis.sources.schema.column import Column, Part

MEASURED = 200
"""Pictures whose size is looked up to choose one for all, spread over the column."""
LOOKED = 20
"""Cells from which it is found out that a column holds pictures."""
LARGEST_SIDE = 64
"""Pixels of the side of a picture unless a user chooses: more takes long on a CPU."""
SIDES = (32, 24, 16, 8)
"""Sides for pictures that are smaller than the largest."""
READ_AT_ONCE = 8
"""Threads that decode, at the most; Pillow releases the lock of the interpreter."""


@dataclass(frozen=True)
class Image(Column):
    """A picture, as bytes of one size; a row whose picture cannot be read is rejected.

    Cells are paths, relative to the folder of the table, or hold a picture's bytes.
    """

    kind: ClassVar[str] = "image"
    part: ClassVar[Part] = "numbers"
    required: ClassVar[bool] = True
    files: ClassVar[PictureFiles] = PictureFiles()
    size: tuple[int, ...] = (32, 32)
    colours: str = "colour"

    @classmethod
    def infer(
        cls, name: str, cells: Cells, files: PictureFiles | None = None, side: int | None = None
    ) -> Self:
        """Return the column with the size and colours that fit its pictures, or a given side."""
        check_pillow()
        found = headers_of(cells, files or cls.files)
        colours = "grey" if found and all(header.grey for header in found) else "colour"
        size = (side, side) if side else size_for(found)
        return cls(name, size, colours).located(files or cls.files)

    def located(self, files: PictureFiles) -> Self:
        """Return the column with relative paths that begin somewhere."""
        column = replace(self)
        object.__setattr__(column, "files", files)  # no part of what a schema is
        return column

    @property
    def shape(self) -> tuple[int, ...]:
        """Colours, height and width."""
        return (1 if self.colours == "grey" else 3, *self.size)

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pixels by their place."""
        return tuple(f"{self.name}[{at}]" for at in range(self.width))

    def read(self, cells: Cells) -> np.ndarray:
        """Return the bytes of each picture, and a last one that is 1 where there is none."""
        found = np.zeros((len(cells), self.width + 1), np.uint8)
        check_pillow()

        def fill(row: int) -> None:
            try:
                found[row, :-1] = self._pixels(cells[row]).reshape(-1)
            except BadRecordError:
                found[row, -1] = 1

        threads = min(READ_AT_ONCE, os.cpu_count() or 1)
        with without_warnings(), ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, range(len(cells))))
        return found

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return the bytes alone."""
        return values[:, :-1]

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return that none is missing: such a row is rejected."""
        return np.zeros(len(values), bool)

    def unreadable(self, values: np.ndarray, cells: Cells) -> np.ndarray:
        """Return which cells have no picture that can be read."""
        return values[:, -1] > 0

    def thumbnail(self, cell: Any, longest: int) -> np.ndarray | None:
        """Return a picture in its own proportions, not enlarged; None where it cannot be read."""
        try:
            with without_warnings():
                header = header_of(self.files.open(cell))
                share = min(1.0, longest / max(header[:2]))
                size = (max(1, round(share * header.height)), max(1, round(share * header.width)))
                return decode(self.files.open(cell), size, "grey" if header.grey else "colour")
        except BadRecordError:
            return None

    def fault(self, cell: Any) -> BadRecordError | None:
        """Return why a picture cannot be read, with the name of its file."""
        try:
            with without_warnings():
                self._pixels(cell)
        except BadRecordError as error:
            named = isinstance(cell, str | Path | StoredPicture) and str(cell) not in error.detail
            detail = f"{cell}: {error.detail}" if named else error.detail
            return BadRecordError(error.reason, detail)
        return None

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the shape: a picture is not text."""
        return f"(picture of {' x '.join(map(str, self.size))})"

    def note(self) -> str:
        """Return size and colours."""
        return f"{' x '.join(map(str, self.size))} pixels, {self.colours}"

    def _pixels(self, cell: Any) -> np.ndarray:
        height, width = self.size
        return self.files.pixels(cell, (height, width), self.colours)


def headers_of(cells: Cells, files: PictureFiles, most: int = MEASURED) -> list[Header]:
    """Return size and colours of some pictures; those that cannot be read are left out."""
    present = [cell for cell in cells if not is_absent(cell)]
    found = []
    with without_warnings():
        for cell in present[:: max(1, len(present) // most)]:
            try:
                found.append(header_of(files.open(cell)))
            except BadRecordError:
                continue
    return found


def size_for(headers: list[Header]) -> tuple[int, int]:
    """Return the size of most pictures where they are small and all of one, else a square.

    >>> size_for([Header(28, 28, True)] * 3), size_for([Header(600, 800, False)])
    ((28, 28), (64, 64))
    """
    if not headers:
        return SIDES[0], SIDES[0]
    sizes = {(header.height, header.width) for header in headers}
    height, width = next(iter(sizes))
    if len(sizes) == 1 and min(height, width) >= 4 and max(height, width) <= LARGEST_SIDE:
        return height, width
    median = float(np.median([min(header[:2]) for header in headers]))
    side = next((side for side in (LARGEST_SIDE, *SIDES) if side <= median), SIDES[-1])
    return side, side


def holds_pictures(cells: Cells, files: PictureFiles) -> bool:
    """Return whether cells are pictures, or paths of files that most are there."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return False
    some = some_of(cells)
    if not some or not all(may_be_picture(cell) for cell in some):
        return False
    return 2 * len(headers_of(some, files, LOOKED)) >= len(some)


def names_pictures(cells: Cells) -> bool:
    """Return whether cells look like paths of pictures, whether or not there are such files."""
    some = some_of(cells)
    return bool(some) and all(isinstance(cell, str) and may_be_picture(cell) for cell in some)


def some_of(cells: Cells) -> list[Any]:
    """Return some cells that are not empty, spread over the column."""
    step = max(1, len(cells) // LOOKED)
    return [cell for cell in cells[::step] if not is_absent(cell)][: 2 * LOOKED]


def may_be_picture(cell: Any) -> bool:
    """Return whether a cell has the form of a picture, or of a path of one."""
    if isinstance(cell, Mapping):
        return bool({"bytes", "path"} & set(cell))
    if isinstance(cell, str | Path):
        return Path(str(cell).strip()).suffix.lower() in ENDINGS
    return isinstance(cell, bytes | bytearray | StoredPicture)
