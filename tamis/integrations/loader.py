"""PyTorch data loaders: batches of picks instead of batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Sampler, default_collate

from tamis.integrations.columns import Columns, device_of, sent
from tamis.integrations.sieve import POSITIONS, Sieve

NO_PLACE = "Indices carry no targets or weights: use Plausible(mend=False), or a SieveLoader."


class SieveLoader:
    """Goes through a loader of pools, and yields what is to be trained on of each.

    Workers of the loader read pools ahead; picks are made when a batch is asked for, and so with
    the model as it is then, on its device. Asking for the next batch tells the sieve that the step
    on the last one is done.
    """

    def __init__(
        self, loader: Iterable[Any], model: nn.Module, sieve: Sieve, columns: Columns = POSITIONS
    ) -> None:
        self.loader = loader
        self.model = model
        self.sieve = sieve
        self.columns = columns

    def __iter__(self) -> Iterator[Any]:
        for pool in self.loader:
            pool = sent(pool, device_of(self.model))
            yield self.sieve.sift(self.model, pool, self.columns)
            self.sieve.update(self.model)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]


class SieveSampler(Sampler[list[int]]):
    """A batch sampler: of each pool of indices it yields those that are picked.

    A pool is read from the dataset to be judged, and its picks once more by the loader. They are
    made when the loader asks for indices: with `num_workers=0` that is when a batch is asked for,
    and picks are exact; with workers it is `num_workers * prefetch_factor` batches ahead, by a
    model that is so many steps old. Indices cannot carry targets: use `Plausible(mend=False)`.
    Rows are known by their indices.
    """

    def __init__(
        self,
        pools: Iterable[list[int]],
        dataset: Dataset[Any],
        model: nn.Module,
        sieve: Sieve,
        columns: Columns = POSITIONS,
    ) -> None:
        self.pools = pools
        self.dataset = dataset
        self.model = model
        self.sieve = sieve
        self.columns = columns

    def __iter__(self) -> Iterator[list[int]]:
        for indices in self.pools:
            pool = default_collate([self.dataset[index] for index in indices])
            inputs, labels, _ = self.columns.parts(sent(pool, device_of(self.model)))
            picks = self.sieve.pick(
                self.model, inputs, labels, torch.tensor(indices, device=labels.device)
            )
            if picks.targets is not None or picks.weights is not None:
                raise TypeError(NO_PLACE)
            yield self.sieve.picked.tolist()
            self.sieve.update(self.model)

    def __len__(self) -> int:
        return len(self.pools)  # type: ignore[arg-type]
