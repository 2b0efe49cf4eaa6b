"""Co-teaching: Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018, algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

from torch import nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.data import Picks, Samples
from tamis.training.pairs.two_models import Settings, TwoModels, smallest


@dataclass(frozen=True)
class KeepRate:
    """R(t) = 1 - tau min(t / T_k, 1): all rows at first, the share that is clean in the end.

    >>> [KeepRate(0.5, ramp=100).at(slot) for slot in (0, 50, 100, 1000)]
    [1.0, 0.75, 0.5, 0.5]
    """

    noise_rate: float
    ramp: int

    def __post_init__(self) -> None:
        if not 0 <= self.noise_rate < 1:
            raise ValueError(f"The noise rate lies in [0, 1), got {self.noise_rate}.")
        if self.ramp < 1:
            raise ValueError(f"A ramp takes at least 1 slot, got {self.ramp}.")

    def at(self, slot: int) -> float:
        """Return the share of a batch that is kept in a slot."""
        return 1 - self.noise_rate * min(slot / self.ramp, 1)

    def count(self, rows: int, slot: int) -> int:
        """Return how many rows of a batch are kept in a slot: at least one."""
        return max(1, math.floor(self.at(slot) * rows + 1e-9))  # 0.29 * 100 is 28.999...

    def batch(self, k: int) -> int:
        """Return the least batch of which k rows are kept in the end."""
        return math.ceil(k / (1 - self.noise_rate) - 1e-9)


class SmallLoss(TwoModels):
    """Two models that learn from a falling share of each batch, its rows of small loss.

    In the letters of the papers: noise_rate is tau, ramp is T_k in slots. The batch is
    k / (1 - tau) rows unless given, so that all of them are learned from at first and k of them in
    the end.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int = 32,
        *,
        noise_rate: float = 0.5,
        ramp: int = 1000,
        batch: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.keep = KeepRate(noise_rate, ramp)
        batch = self.keep.batch(k) if batch is None else batch
        super().__init__(models, optimizers, buffer, k, batch, **settings)


class CoTeaching(SmallLoss):
    """Learn from the rows of smallest loss under the other model.

    See `SmallLoss` for noise_rate, ramp and batch, `TwoModels` for what a slot reports and for the
    other settings.
    """

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        count = self.keep.count(len(batch), self.slots)
        by_first, by_second = (
            smallest(one.now.losses(batch.inputs, batch.labels), count) for one in self.both
        )
        return Picks(by_second), Picks(by_first)
