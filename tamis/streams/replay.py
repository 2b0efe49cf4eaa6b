"""A labelled data set played back as a stream whose noise may drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.streams.noise import Noise
from tamis.streams.schedules import Schedule


@dataclass(frozen=True)
class Replay:
    """Play rows in random order, a share 1 - clean_ratio of their labels made wrong by `noise`.

    A pass shows every row once. If `slots` asks for more rows than there are, another pass in
    another order follows, and what goes wrong is drawn afresh. Ids number the arrivals.
    Iterating twice yields the same stream: the seed determines all random draws.

    >>> from tamis.streams.noise import Symmetric
    >>> stream = Replay(torch.eye(3), torch.arange(3), Symmetric(3), lambda time: 1 - time)
    >>> [samples.clean.item() for samples in stream][::2]
    [True, False]
    """

    inputs: Tensor
    labels: Tensor
    noise: Noise
    clean_ratio: Schedule
    slots: int | None = None
    rows_per_slot: int = 1
    seed: int = 0
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise ValueError("There is nothing to replay: the data set has no rows.")

    def __len__(self) -> int:
        if self.slots is not None:
            return self.slots
        return -(-len(self.labels) // self.rows_per_slot)

    def __iter__(self) -> Iterator[Samples]:
        generator = torch.Generator().manual_seed(self.seed)
        arrived, order = 0, torch.empty(0, dtype=torch.long)
        for slot in range(len(self)):
            while len(order) < self.rows_per_slot and (self.slots or not arrived + len(order)):
                order = torch.cat([order, torch.randperm(len(self.labels), generator=generator)])
            rows, order = order[: self.rows_per_slot], order[self.rows_per_slot :]
            inputs, labels, clean = self.noise.corrupt(
                self.inputs[rows],
                self.labels[rows],
                1 - self.clean_ratio(self.time(slot)),
                generator,
            )
            groups = None if self.groups is None else self.groups[rows]
            yield Samples.of(inputs, labels, arrived, clean=clean, groups=groups)
            arrived += len(rows)

    def time(self, slot: int) -> float:
        """Return the time of a slot, from 0 at the first to 1 at the last."""
        return slot / max(1, len(self) - 1)
