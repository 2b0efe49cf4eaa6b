"""The newest rows."""

from __future__ import annotations

from torch import Generator

from tamis.buffers.store import Store
from tamis.data import Samples


class Sliding(Store):
    """Keep the newest rows: a ring in which the newest takes the oldest one's place."""

    counts = ("_next",)
    _next = 0

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take all in; the oldest leave."""
        samples = self.fill(samples)[slice(-self.capacity, None)]
        while len(samples):
            taken = min(len(samples), self.capacity - self._next)
            self.write(slice(self._next, self._next + taken), samples[slice(taken)])
            self._next = (self._next + taken) % self.capacity
            samples = samples[slice(taken, None)]
