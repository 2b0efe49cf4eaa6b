"""All rows so far, up to a cap."""

from __future__ import annotations

from torch import Generator

from tamis.buffers.store import Store
from tamis.data import Samples


class Growing(Store):
    """Keep every row until the cap; later rows are turned away and counted in `turned_away`."""

    counts = ("turned_away",)
    turned_away = 0

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take rows in as long as there is room."""
        self.turned_away += len(self.fill(samples))
