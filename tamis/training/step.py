"""One step of the optimiser on picked rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.losses import Criterion
from tamis.model_view.passes import casting

LONGEST = 1e6
"""Length beyond which a step is no learning any more: it would sweep weights away, few of which
are ever beyond 1000. Shorter ones can be added up for ever within single precision."""
Kept = Sequence[tuple[Tensor, Tensor]]
"""Places, and what was in them."""


class Step:
    """Forward, backward, update. The loss stays on the device: reading it would wait for it."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: Criterion,
        precision: torch.dtype | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.criterion = criterion
        self.precision = precision

    def __call__(self, inputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Do the step, and return the mean loss from before it; nan where none was taken."""
        self.model.train()
        kept = keep_buffers(self.model)
        with casting(inputs.device, self.precision):
            losses = self.criterion(self.model(inputs), targets)
        loss = (losses if weights is None else losses * weights).mean()
        return descend(loss, self.optimizer, kept=kept)


def descend(loss: Tensor, *optimizers: Optimizer, kept: Kept = ()) -> Tensor:
    """Do a step of each optimiser; return the loss, or not a number where no step was taken.

    None is taken where the loss is not finite or the gradient has exploded. What was `kept` is
    put back then. A GPU is not waited for to know, so its optimisers do a step all the same, with
    gradients of 0: momentum and weight decay, if any, go on.
    """
    for optimizer in optimizers:
        optimizer.zero_grad()
    if loss.device.type != "cpu" or loss.detach().isfinite():
        loss.backward()
    return finish(loss.detach(), *optimizers, kept=kept)


def finish(loss: Tensor, *optimizers: Optimizer, kept: Kept = ()) -> Tensor:
    """Do the step that the gradients of a loss say, unless it is spoilt; `descend` tells more."""
    spoilt = ~loss.isfinite() | ~(length_of_step(optimizers) <= LONGEST)
    here = loss.device.type == "cpu"
    if not (here and spoilt):
        for optimizer in optimizers:
            if not here:
                drop_gradients(optimizer, spoilt)
            optimizer.step()
    if not here or spoilt:
        put_back(kept, spoilt)
    return loss.masked_fill(spoilt, torch.nan)


def keep_buffers(*models: nn.Module) -> Kept:
    """Copy what a pass may change, as a batch norm does: one that is not finite stays so."""
    buffers = [buffer for model in models for buffer in model.buffers()]
    copies: list[Tensor] = [*buffers]
    for numbers in alike(buffers):
        parts = one_by_one(flat(buffers, numbers), [buffers[number] for number in numbers])
        for number, part in zip(numbers, parts, strict=True):
            copies[number] = part
    return list(zip(buffers, copies, strict=True))


def put_back(kept: Kept, spoilt: Tensor) -> None:
    """Put back what was kept if the step is spoilt: a few kernels, however many places."""
    if not kept:
        return
    places, copies = zip(*kept, strict=True)
    for numbers in alike(places):
        right = torch.where(spoilt, flat(copies, numbers), flat(places, numbers))
        group = [places[number] for number in numbers]
        torch._foreach_copy_(group, one_by_one(right, group))


def alike(tensors: Sequence[Tensor]) -> Iterable[list[int]]:
    """Group the numbers of tensors by what they are of and where they lie."""
    groups: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for number, tensor in enumerate(tensors):
        groups.setdefault((tensor.dtype, tensor.device), []).append(number)
    return groups.values()


def flat(tensors: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    """Copy some tensors into one row of numbers."""
    return torch.cat([tensors[number].reshape(-1) for number in numbers])


def one_by_one(row: Tensor, shapes: Sequence[Tensor]) -> list[Tensor]:
    """Cut a row of numbers into tensors of these shapes."""
    parts = row.split([shape.numel() for shape in shapes])
    return [part.view(shape.shape) for part, shape in zip(parts, shapes, strict=True)]


def length_of_step(optimizers: Sequence[Optimizer]) -> Tensor:
    """Say how far plain descent would go, at the most: rates times lengths of gradients."""
    lengths: list[Tensor] = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            gradients = [weight.grad for weight in group["params"] if weight.grad is not None]
            if gradients:
                dense = [part._values() if part.is_sparse else part for part in gradients]
                lengths.append(group.get("lr", 1.0) * torch.stack(torch._foreach_norm(dense)).sum())
    if not lengths:
        return torch.zeros(())
    return torch.stack([length.to(lengths[0].device) for length in lengths]).sum()


def drop_gradients(optimizer: Optimizer, spoilt: Tensor) -> None:
    """Set all gradients to 0 if they are spoilt."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is not None:
                weight.grad.masked_fill_(spoilt, 0)
