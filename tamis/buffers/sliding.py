"""The newest rows."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from tamis.buffers.store import Store
from tamis.data import Samples


class Sliding(Store):
    """Keep the newest rows: a ring in which the newest takes the oldest one's place."""

    counts = ("_next",)
    _next = 0

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take all rows in; the oldest make way."""
        samples = self.fill(samples)[slice(-self.capacity, None)]
        while len(samples):
            taken = min(len(samples), self.capacity - self._next)
            self.write(slice(self._next, self._next + taken), samples[slice(taken)])
            self._next = (self._next + taken) % self.capacity
            samples = samples[slice(taken, None)]

    def remove(self, ids: Tensor) -> int:
        """Remove rows by their ids; the others are then held in the order in which they came."""
        if self._next and torch.isin(self.pool().ids, ids.to(self.pool().ids.device)).any():
            # Free rows are filled from the end, so that the oldest must come first.
            self._rotate(self._next)
            self._next = 0
        return super().remove(ids)
