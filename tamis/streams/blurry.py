"""Tasks with blurred boundaries: Bang et al., CVPR 2022, the stream of PuriDivER."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tamis.data import Samples
from tamis.streams.noise import Noise


@dataclass(frozen=True)
class BlurryTasks:
    """Play rows once, task by task; each class belongs to one task, and has a few rows in others.

    Classes are dealt to `tasks` at random, in equal numbers as far as they go. A share `minor` of
    the rows of a class come in the other tasks, spread evenly, the rest in its own. Tasks have no
    end that a learner can see. `noise` makes a share 1 - clean_ratio of the labels wrong.

    A task takes `slots_per_task` slots. Rows come `rows_per_slot` at a time, or more where they
    would not fit; then no row comes until the next task, and None is yielded. The seed determines
    all random draws.
    """

    inputs: Tensor
    labels: Tensor
    noise: Noise
    clean_ratio: float
    slots_per_task: int
    tasks: int = 5
    minor: float = 0.1
    rows_per_slot: int = 16
    seed: int = 0
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise ValueError("There is nothing to replay: the data set has no rows.")
        if min(self.tasks, self.slots_per_task, self.rows_per_slot) < 1 or not 0 <= self.minor <= 1:
            raise ValueError("Tasks, slots and rows are at least 1, and minor is a share.")

    def __len__(self) -> int:
        return self.tasks * self.slots_per_task

    def __iter__(self) -> Iterator[Samples | None]:
        generator = Generator().manual_seed(self.seed)
        task_of, arrived = self.deal(generator), 0
        for task in range(self.tasks):
            rows = (task_of == task).nonzero()[:, 0]
            rows = rows[torch.randperm(len(rows), generator=generator)]
            at_once = max(self.rows_per_slot, -(-len(rows) // self.slots_per_task))
            parts = rows.split(at_once) if len(rows) else ()
            for part in parts:
                inputs, labels, clean = self.noise.corrupt(
                    self.inputs[part], self.labels[part], 1 - self.clean_ratio, generator
                )
                groups = None if self.groups is None else self.groups[part]
                yield Samples.of(inputs, labels, arrived, clean=clean, groups=groups)
                arrived += len(part)
            yield from [None] * (self.slots_per_task - len(parts))

    def deal(self, generator: Generator) -> Tensor:
        """Return the task of each row."""
        classes = int(self.labels.max()) + 1
        own = torch.randperm(classes, generator=generator) % self.tasks
        task_of = own[self.labels]
        for number in range(classes):
            rows = (self.labels == number).nonzero()[:, 0]
            rows = rows[torch.randperm(len(rows), generator=generator)]
            few = rows[: round(self.minor * len(rows))] if self.tasks > 1 else rows[:0]
            turns = torch.arange(len(few)) % max(1, self.tasks - 1)
            task_of[few] = (own[number] + 1 + turns) % self.tasks
        return task_of
