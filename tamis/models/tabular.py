"""Tables of numbers, categories and texts: what the columns of an encoded row are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TableLayout:
    """What the columns of an encoded row are, in this order.

    Parameters
    ----------
    numbers: columns on their raw scale, never NaN: numbers, flags, booleans, parts of dates.
    categories: one entry, the number of codes, for each column of codes; 0 is missing, 1 unseen.
    texts: one entry, (tokens, buckets), for each text: so many columns of n-gram ids below
        `buckets`, where 0 is padding.
    """

    numbers: int
    categories: tuple[int, ...] = ()
    texts: tuple[tuple[int, int], ...] = ()

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return self.numbers + len(self.categories) + sum(tokens for tokens, _ in self.texts)
