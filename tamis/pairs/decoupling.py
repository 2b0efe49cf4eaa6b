"""Decoupling when to update from how to update: Malach and Shalev-Shwartz, NeurIPS 2017."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from tamis.augment import Augment
from tamis.buffers import Buffer
from tamis.data import Picks, Samples
from tamis.losses import Criterion, cross_entropy
from tamis.pairs.two_models import TwoModels
from tamis.selectors.protocol import all_rows, lowest_marked
from tamis.streams import Intake


class Decoupling(TwoModels):
    """Learn only from rows about which two models disagree.

    At most k such rows of a batch are learned from, by both models. In the first `warm_up` slots
    all rows count as such. The batch is 4 k rows if not said; with `batch` equal to k it is the
    paper's. See `TwoModels` for what a slot tells and of which model.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int = 32,
        *,
        batch: int | None = None,
        warm_up: int = 0,
        ema: float | None = 0.99,
        predict_first: bool = True,
        augment: Augment | None = None,
        criterion: Criterion = cross_entropy,
        intake: Intake | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        super().__init__(
            models,
            optimizers,
            buffer,
            k,
            4 * k if batch is None else batch,
            warm_up=warm_up,
            ema=ema,
            predict_first=predict_first,
            augment=augment,
            criterion=criterion,
            intake=intake,
            device=device,
            seed=seed,
        )

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        first, second = (one.now.logits(batch.inputs).argmax(dim=1) for one in self.both)
        disagree = (first != second) | (self.slots < self.warm_up)
        # The batch came in random order, so the first k are as good as any.
        rows, real = lowest_marked(disagree, all_rows(batch) / len(batch), self.k)
        picks = Picks.only(rows, real)
        return picks, picks
