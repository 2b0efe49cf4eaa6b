"""skorch: a classifier that trains on the rows of every batch that are picked."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from tamis.integrations.columns import device_of, to_device
from tamis.integrations.sieve import Sieve
from tamis.selectors import Plausible, Selector

try:
    from skorch import NeuralNetClassifier
except ModuleNotFoundError:
    raise ImportError(
        "tamis.integrations.skorch needs skorch: pip install 'tamis[sklearn]'"
    ) from None


class SieveNet(NeuralNetClassifier):
    """A skorch classifier whose module returns logits, with a selector in its training step.

    `batch_size` is the size of the pools that rows are picked from. The ids of rows are their
    positions in the data passed to `fit`; those of another `partial_fit` are other rows.

    Parameters
    ----------
    module: the network; it and what follows are skorch's own arguments.
    selector: how rows are picked; None is `Plausible()`. Every `initialize` starts with a copy.
    k: picks of a batch.
    ema: decay of the average of the weights; None keeps none.
    seed: seed of the picks.
    criterion: a loss that takes logits and targets.
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        selector: Selector | None = None,
        k: int = 32,
        ema: float | None = 0.99,
        seed: int = 0,
        criterion: Any = nn.CrossEntropyLoss,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, criterion=criterion, **kwargs)
        self.selector = selector
        self.k = k
        self.ema = ema
        self.seed = seed

    def initialize(self) -> SieveNet:
        """Initialise the module, with a new copy of the selector."""
        super().initialize()
        selector = Plausible() if self.selector is None else copy.deepcopy(self.selector)
        self.sieve_ = Sieve(self.module_, self.k, selector, ema=self.ema, seed=self.seed)
        self.rows_ = 0
        return self

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return batches; those to train on are read with the numbers of their rows."""
        if not training:
            return super().get_iterator(dataset, training)
        numbered = Numbered(dataset, self.rows_)
        self.rows_ += len(dataset)
        return WithoutNumbers(self, super().get_iterator(numbered, training))

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Take a step on the picks."""
        self.sieve_.model = self.module_  # set_params may have built another
        inputs, labels, ids = to_device((*batch, self.ids_), device_of(self.module_))
        step = super().train_step(self.sieve_(inputs, labels, ids), **fit_params)
        self.sieve_.update()
        return step


class Numbered(Dataset[Any]):
    """Returns every row with its number."""

    def __init__(self, dataset: Any, first: int) -> None:
        self.dataset = dataset
        self.first = first

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Any:
        return self.dataset[row], self.first + row


class WithoutNumbers:
    """Yields batches of inputs and labels, as skorch and its callbacks expect them.

    The numbers of their rows are set on the net.
    """

    def __init__(self, net: SieveNet, batches: Any) -> None:
        self.net = net
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        for batch, ids in self.batches:
            self.net.ids_ = ids
            yield batch
