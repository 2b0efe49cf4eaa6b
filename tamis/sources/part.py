"""The part of a source that one of several readers reads."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32


class Part(NamedTuple):
    """Part `number`, from 0, of so many."""

    number: int = 0
    of: int = 1

    def has(self, name: str, piece: int = 0) -> bool:
        """Return whether a piece of something of this name, as a file, is in the part.

        >>> [[Part(number, 2).has("a.jsonl", piece) for piece in range(3)] for number in range(2)]
        [[True, False, True], [False, True, False]]
        """
        return (crc32(name.encode()) + piece) % self.of == self.number

    def numbered(self, row: int) -> int:
        """Return the number of a row of this part among the rows of all parts.

        >>> [Part(number, 2).numbered(7) for number in range(2)]
        [14, 15]
        """
        return row * self.of + self.number


COMPLETE = Part()
