"""PyTorch data loaders: batches of picks instead of batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, default_collate

from tamis.integrations.columns import Columns, device_of, to_device
from tamis.integrations.sieve import POSITIONS, Sieve

NO_PLACE = (
    "Indices carry no targets or weights: use Plausible(pseudo_labels=False), or a SieveLoader."
)


class SieveLoader:
    """Reads a loader of pools, and yields the rows of each to train on.

    Workers of the loader read pools ahead. Picks are made when a batch is requested, with the model
    as it is then, on its device. The request for the next batch updates the sieve: the step on the
    last one is done.
    """

    def __init__(self, loader: Iterable[Any], sieve: Sieve, columns: Columns = POSITIONS) -> None:
        self.loader = loader
        self.sieve = sieve
        self.columns = columns

    def __iter__(self) -> Iterator[Any]:
        for pool in self.loader:
            pool = to_device(pool, device_of(self.sieve.model))
            yield self.sieve.sift(pool, self.columns)
            self.sieve.update()

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]


class SieveSampler(Sampler[list[int]]):
    """A batch sampler: of each pool of indices it yields those that are picked.

    A pool is read from the dataset to pick from it, and its picks once more by the loader. Picks
    are made when the loader requests indices: with `num_workers=0` that is when a batch is
    requested, and picks are exact; with workers it is `num_workers * prefetch_factor` batches
    ahead, by a model that is that many steps old. Indices carry no targets: use
    `Plausible(pseudo_labels=False)`. The ids of rows are their indices.
    """

    def __init__(
        self,
        pools: Iterable[list[int]],
        dataset: Dataset[Any],
        sieve: Sieve,
        columns: Columns = POSITIONS,
    ) -> None:
        self.pools = pools
        self.dataset = dataset
        self.sieve = sieve
        self.columns = columns

    def __iter__(self) -> Iterator[list[int]]:
        for indices in self.pools:
            pool = default_collate([self.dataset[index] for index in indices])
            pool = to_device(pool, device_of(self.sieve.model))
            inputs, labels, _ = self.columns.parts(pool)
            ids = torch.tensor(indices, device=labels.device)
            picks = self.sieve.pick(inputs, labels, ids)
            if picks.targets is not None or picks.weights is not None:
                raise TypeError(NO_PLACE)
            yield self.sieve.picked.tolist()
            self.sieve.update()

    def __len__(self) -> int:
        return len(self.pools)  # type: ignore[arg-type]
