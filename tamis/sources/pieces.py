"""Pieces of a large file, so that several readers share it: lines by bytes, or groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tamis.sources.part import Part
from tamis.sources.rotation import name_before

PIECE = 2**22
"""Bytes of a piece of lines."""
UNSPLIT = ".csv"
"""A cell of CSV may go over lines, so that nobody can begin in the middle."""

Has = Callable[[int], bool]
"""Returns whether a piece, by its number, is to be read."""


def everything(piece: int) -> bool:
    """Return True: all pieces are read."""
    return True


def is_split(name: str, part: Part, follow: bool) -> bool:
    """Return whether readers share a file: one that is followed is read by one of them."""
    return part.of > 1 and not follow and not name_before(name).endswith(UNSPLIT)


def pieces_of(name: str, part: Part, follow: bool) -> Has:
    """Return which pieces of a file a reader has, whatever was added to its name since."""
    return partial(part.has, name_before(name)) if is_split(name, part, follow) else everything
