"""JoCoR, joint training with co-regularisation: Wei, Feng, Chen and An, CVPR 2020, algorithm 1."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.augment import Augment
from tamis.buffers import Buffer
from tamis.data import Picks, Samples
from tamis.losses import Criterion, cross_entropy
from tamis.pairs.co_teaching import KeepRate
from tamis.pairs.two_models import TwoModels, smallest
from tamis.streams import Intake


class JoCoR(TwoModels):
    """Learn from rows of small loss under two models together, and let the two agree.

    In the paper's letters: strength is lambda, noise_rate is tau, ramp is T_k in slots. The batch
    is k / (1 - tau) rows if not said, so that all of them are learned from at first and k of them
    in the end. A slot's loss is the joint one; see `TwoModels` for what else it tells.
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
        strength: float = 0.1,
        batch: int | None = None,
        ema: float | None = 0.99,
        predict_first: bool = True,
        augment: Augment | None = None,
        criterion: Criterion = cross_entropy,
        intake: Intake | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        if not 0 <= strength <= 1:
            raise ValueError(f"The strength of JoCoR is a share in [0, 1], got {strength}.")
        self.keep = KeepRate(noise_rate, ramp)
        self.strength = strength
        super().__init__(
            models,
            optimizers,
            buffer,
            k,
            self.keep.batch(k) if batch is None else batch,
            ema=ema,
            predict_first=predict_first,
            augment=augment,
            criterion=criterion,
            intake=intake,
            device=device,
            seed=seed,
        )

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        first, second = (one.now.logits(batch.inputs) for one in self.both)
        losses = self._joint_losses(first, second, batch.labels)
        picks = Picks(smallest(losses, self.keep.count(len(batch), self.slots)))
        return picks, picks

    def _train(self, batch: Samples, picks: tuple[Picks, Picks]) -> Tensor:
        """Update both models down the one loss that they share."""
        inputs, targets = self._show(batch, picks[0])
        first, second = (one.model.train()(inputs) for one in self.both)
        loss = self._joint_losses(first, second, targets).mean()
        descend(loss, self.optimizer, self.second.optimizer)
        return loss.detach()

    def _joint_losses(self, first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        criterion = self.now.criterion
        told = criterion(first, targets) + criterion(second, targets)
        return (1 - self.strength) * told + self.strength * divergence(first, second)


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return KL(p, q) + KL(q, p) a row: the sum over classes of (p - q) (log p - log q)."""
    p, q = first.log_softmax(dim=1), second.log_softmax(dim=1)
    return ((p.exp() - q.exp()) * (p - q)).sum(dim=1)


def descend(loss: Tensor, *optimizers: Optimizer) -> None:
    """Do a step of each optimiser. A loss that is not finite changes no weight by its gradient."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    finite = loss.detach().isfinite()
    if loss.device.type == "cpu" and not finite:
        return
    loss.backward()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad.masked_fill_(~finite, 0)  # a GPU is not waited for
        optimizer.step()
