"""Tables that are sorted by label, and their rows in random order.

A model that meets one class first and the others later may never learn to separate them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from tamis.data import Samples, concat

MOST_ROWS = 1_000_000
"""Rows up to which a table is shuffled: all are in memory then."""
Chunk = tuple[Samples, list[str]]


class LabelOrder:
    """How often rows near each other have the same label.

    Parameters
    ----------
    near: rows that are compared with each other.
    most: how far above the mean of random orders that may be, where 1 is a sorted table.
    """

    def __init__(self, near: int = 16, most: float = 0.1) -> None:
        self.near, self.most = near, most
        self._rows = self._pairs = self._same = 0

    def update(self, labels: Sequence[str]) -> None:
        """Count the pairs in a block of rows."""
        self._rows += len(labels)
        for start in range(0, len(labels), self.near):
            part = labels[start : start + self.near]
            self._pairs += len(part) * (len(part) - 1)
            self._same += sum(count * (count - 1) for count in Counter(part).values())

    def grouped(self, counts: Mapping[str, int]) -> bool:
        """Return whether rows of a label lie together, where labels occur so often in all."""
        if not self._pairs or self._rows > MOST_ROWS:
            return False
        rows = sum(counts.values())
        expected = sum(count * (count - 1) for count in counts.values()) / max(1, rows * (rows - 1))
        return self._same / self._pairs - expected > self.most * (1 - expected) > 0


def shuffled(chunks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield all rows, so many at a time, in a random order that is always the same."""
    parts = [chunk for chunk in chunks if len(chunk[0])]
    if not parts:
        return
    samples = concat([part for part, _ in parts])
    names = [name for _, part in parts for name in part]
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    for drawn in order.split(rows):
        yield samples[drawn], [names[row] for row in drawn.tolist()]
