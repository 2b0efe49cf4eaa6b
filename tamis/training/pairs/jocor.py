"""JoCoR, joint training with co-regularisation: Wei, Feng, Chen and An, CVPR 2020, algorithm 1."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.data import Picks, Samples
from tamis.training.pairs.co_teaching import SmallLoss
from tamis.training.pairs.two_models import Settings, smallest
from tamis.training.step import descend, save_buffers


class JoCoR(SmallLoss):
    """Learn from rows of small joint loss; disagreement of the two models is penalised.

    In the paper's letters, strength is lambda. A slot's loss is the joint one. See `SmallLoss` for
    noise_rate, ramp and batch, `TwoModels` for the other settings.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int = 32,
        *,
        strength: float = 0.1,
        noise_rate: float = 0.5,
        ramp: int = 1000,
        batch: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if not 0 <= strength <= 1:
            raise ValueError(f"The strength of JoCoR is a share in [0, 1], got {strength}.")
        self.strength = strength
        super().__init__(
            models, optimizers, buffer, k,
            noise_rate=noise_rate, ramp=ramp, batch=batch, **settings,
        )  # fmt: skip

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        first, second = (one.now.logits(batch.inputs) for one in self.both)
        losses = self._joint_losses(first, second, batch.labels)
        picks = Picks(smallest(losses, self.keep.count(len(batch), self.slots)))
        return picks, picks

    def _train(self, batch: Samples, picks: tuple[Picks, Picks]) -> Tensor:
        """Update both models down the one loss that they share."""
        inputs, targets = self._augmented(batch, picks[0])
        saved = save_buffers(self.model, self.second.model)
        first, second = (one.model.train()(inputs) for one in self.both)
        loss = self._joint_losses(first, second, targets).mean()
        return descend(loss, self.optimizer, self.second.optimizer, saved=saved)

    def _joint_losses(self, first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        criterion = self.now.criterion
        supervised = criterion(first, targets) + criterion(second, targets)
        return (1 - self.strength) * supervised + self.strength * divergence(first, second)


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return KL(p, q) + KL(q, p) a row: the sum over classes of (p - q) (log p - log q)."""
    p, q = first.log_softmax(dim=1), second.log_softmax(dim=1)
    return ((p.exp() - q.exp()) * (p - q)).sum(dim=1)
