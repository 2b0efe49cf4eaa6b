"""A fair sample of the whole stream: Vitter, 1985, algorithm R."""

from __future__ import annotations

import torch
from torch import Generator

from tamis.buffers.store import Store
from tamis.data import Samples


class Reservoir(Store):
    """Keep a uniform sample of all rows so far: the n-th row stays with chance capacity / n."""

    counts = ("seen",)
    seen = 0

    def append(self, samples: Samples, generator: Generator) -> None:
        """Let each row in by chance, in the place of a random one."""
        overflow = self.fill(samples)
        first = self.seen + len(samples) - len(overflow) + 1
        self.seen += len(samples)
        if not len(overflow):
            return
        numbers = torch.arange(first, self.seen + 1, dtype=torch.float64)
        chance = torch.rand(len(overflow), generator=generator, dtype=torch.float64)
        places = (chance * numbers).long()
        latest = {  # two rows of one chunk may draw the same place: the later one has it
            place: row for row, place in enumerate(places.tolist()) if place < self.capacity
        }
        if latest:
            device = samples.labels.device
            rows = torch.tensor(list(latest.values()), device=device)
            self.write(torch.tensor(list(latest), device=device), overflow[rows])
