"""Decoupling when to update from how to update: Malach and Shalev-Shwartz, NeurIPS 2017."""

from __future__ import annotations

from typing import Unpack

from torch import nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.data import Picks, Samples
from tamis.selectors.sampling import all_rows, lowest_marked
from tamis.training.pairs.two_models import Settings, TwoModels


class Decoupling(TwoModels):
    """Learn only from rows whose label two models predict differently.

    At most k such rows of a batch are learned from, by both models. In the first `warm_up` slots
    all rows count as such. The batch is 4 k rows unless given; with `batch` equal to k it is the
    paper's. See `TwoModels` for what a slot reports and for the other settings.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int = 32,
        *,
        batch: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        batch = 4 * k if batch is None else batch
        super().__init__(models, optimizers, buffer, k, batch, **settings)

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        first, second = (one.now.logits(batch.inputs).argmax(dim=1) for one in self.both)
        disagree = (first != second) | (self.slots < self.warm_up)
        # The batch came in random order, so the first k are as good as any.
        rows, real = lowest_marked(disagree, all_rows(batch) / len(batch), self.k)
        picks = Picks.only(rows, real)
        return picks, picks
