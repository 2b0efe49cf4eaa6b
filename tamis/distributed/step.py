"""One step of the optimiser on rows that lie on many ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from tamis.distributed.pool import SharedPool
from tamis.distributed.shard import Shard
from tamis.losses import Criterion
from tamis.model_view.passes import casting
from tamis.training import Augment
from tamis.training.step import Saved, Step, finish, save_buffers


class SharedStep(Step):
    """Forward and backward on every shard's own picks, then one update, the same on all ranks.

    The loss is the mean over all picks, wherever they are. What crosses is one vector: gradients,
    changes of the model's buffers as a batch norm makes them, loss and number of picks. A shard
    without picks adds zeros, and the others wait for it all the same.
    """

    picked = 0
    """Picks of the last step, over all ranks."""

    def __init__(
        self,
        pool: SharedPool,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: Criterion,
        precision: torch.dtype | None,
        augment: Augment | None,
        classes: int,
    ) -> None:
        super().__init__(model, optimizer, criterion, precision)
        self.pool = pool
        self.augment = augment
        self.classes = classes

    def __call__(self, inputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Take the step on the rows of these tickets, and return the mean loss before it."""
        saved, places = save_buffers(self.model), self._places()
        sizes = [part.numel() for part in (*places, *(buffer for buffer, _ in saved))]
        # Apart, the number of picks over all ranks is not known yet.
        known = 1 if self.pool.apart else len(inputs)
        nothing = places[0].new_zeros(sum(sizes) + 2)
        vectors = [nothing]
        if self.pool.own:
            vectors = [
                self._gradients(
                    shard, inputs[where], targets[where], of(weights, where), known, saved
                )
                if len(where)
                else nothing
                for shard, where in self.pool.parts(inputs[:, 0])
            ]
        total = self.pool.ranks.add("gradients", add_up(vectors))
        self.picked = len(inputs)
        if self.pool.apart:
            self.picked = int(total[-1])
            total[:-1] /= max(1, self.picked)
        parts = iter(total.split([*sizes, 2]))
        for place in places:
            place.grad = next(parts).view_as(place).to(place.dtype)
        for buffer, before in saved:
            change = next(parts).view_as(buffer)
            change = change if buffer.is_floating_point() else change.round()
            buffer.copy_(before + change.to(buffer.dtype))
        return finish(total[-2].clone(), self.optimizer, saved=saved)

    def grow(self, classes: int) -> None:
        """Augment by so many classes."""
        self.classes = max(classes, self.classes)

    def _gradients(
        self,
        shard: Shard,
        tickets: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        known: int,
        saved: Saved,
    ) -> Tensor:
        """Return what one shard adds to the step, and leave the model as it was."""
        self.model.train()
        for part in self.model.modules():
            if isinstance(part, _BatchNorm) and len(tickets) == 1:
                part.eval()  # of one row there is no deviation: it goes by the running ones
        inputs = self.pool.inputs(shard, tickets[:, 0])
        if self.augment:
            inputs, targets = self.augment(inputs, targets, self.classes, shard.generator)
        with shard.own_rng(), casting(inputs.device, self.precision):
            losses = self.criterion(self.model(inputs), targets)
        loss = (losses if weights is None else losses * weights).sum() / known
        gradients = torch.autograd.grad(
            loss, self._places(), allow_unused=True, materialize_grads=True
        )
        changes = [(place - before) * (len(tickets) / known) for place, before in saved]
        for place, before in saved:
            place.copy_(before)
        ends = [loss.detach()[None], loss.new_tensor([len(tickets)])]
        return torch.cat([part.flatten() for part in (*gradients, *changes, *ends)])

    def _places(self) -> list[Tensor]:
        """List the weights that the optimiser moves."""
        groups = self.optimizer.param_groups
        return [place for group in groups for place in group["params"] if place.requires_grad]


def of(weights: Tensor | None, where: Tensor) -> Tensor | None:
    """Return the weights of some picks, if picks are weighed."""
    return None if weights is None else weights[where]


def add_up(vectors: list[Tensor]) -> Tensor:
    """Return the sum, half by half: one rank adds as two ranks would, to the last bit."""
    if len(vectors) == 1:
        return vectors[0]
    half = (len(vectors) + 1) // 2
    return add_up(vectors[:half]) + add_up(vectors[half:])
