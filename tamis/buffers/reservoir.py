"""A uniform sample of the stream: Vitter, 1985, algorithm R."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from tamis.buffers.store import Store
from tamis.data import Samples


class Reservoir(Store):
    """Keep a uniform sample: the n-th row is taken in with probability capacity / n.

    A row that is removed counts as one that never came.
    """

    counts = ("seen",)
    seen = 0

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take each row in at random, in the place of a random one."""
        overflow = self.fill(samples)
        first = self.seen + len(samples) - len(overflow) + 1
        self.seen += len(samples)
        if not len(overflow):
            return
        numbers = torch.arange(first, self.seen + 1, dtype=torch.float64)
        drawn = torch.rand(len(overflow), generator=generator, dtype=torch.float64)
        places = (drawn * numbers).long()
        latest = {  # two rows of one chunk may draw the same place: the later one has it
            place: row for row, place in enumerate(places.tolist()) if place < self.capacity
        }
        if latest:
            device = samples.labels.device
            rows = torch.tensor(list(latest.values()), device=device)
            self.write(torch.tensor(list(latest), device=device), overflow[rows])

    def remove(self, ids: Tensor) -> int:
        """Remove rows by their ids; return how many are gone."""
        removed = super().remove(ids)
        self.seen -= removed
        return removed
