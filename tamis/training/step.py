"""One step of the optimiser on picked rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from tamis.losses import Criterion
from tamis.model_view.passes import casting, logits_of

LONGEST = 1e6
"""Length beyond which a step has diverged: few weights are ever beyond 1000. Shorter steps can be
added up for ever within single precision."""
Saved = Sequence[tuple[Tensor, Tensor]]
"""Tensors that a pass may change, and copies of what was in them."""


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
        """Take the step and return the mean loss before it; NaN where none was taken."""
        self.model.train()
        saved = save_buffers(self.model)
        with casting(inputs.device, self.precision), single_rows(self.model, len(inputs)):
            losses = self.criterion(logits_of(self.model(inputs), self.model), targets)
        loss = (losses if weights is None else losses * weights).mean()
        return descend(loss, self.optimizer, saved=saved)


@contextmanager
def single_rows(model: nn.Module, rows: int) -> Iterator[None]:
    """Pass one row through batch norms: where a channel has one value, by running statistics.

    A single value has no deviation, and torch refuses it.
    """
    modules = model.modules() if rows == 1 else ()
    norms = [part for part in modules if isinstance(part, _BatchNorm) and part.training]
    handles = [norm.register_forward_pre_hook(use_running_if_single) for norm in norms]
    try:
        yield
    finally:
        for norm, handle in zip(norms, handles, strict=True):
            handle.remove()
            norm.train()


def use_running_if_single(norm: nn.Module, given: tuple[Tensor, ...]) -> None:
    """Put a batch norm in evaluation mode where each channel has one value."""
    norm.train(given[0].numel() > given[0].shape[1])


def descend(loss: Tensor, *optimizers: Optimizer, saved: Saved = ()) -> Tensor:
    """Take a step of each optimiser; return the loss, or NaN where no step was taken.

    None is taken where the loss is not finite or the gradient has exploded. What was `saved` is
    restored then. On a GPU that is not known without waiting, so its optimisers step all the same,
    with gradients of 0: momentum and weight decay, if any, still act.
    """
    for optimizer in optimizers:
        optimizer.zero_grad()
    if loss.device.type != "cpu" or loss.detach().isfinite():
        loss.backward()
    return finish(loss.detach(), *optimizers, saved=saved)


def finish(loss: Tensor, *optimizers: Optimizer, saved: Saved = ()) -> Tensor:
    """Take the step by gradients that are computed already; see `descend`."""
    diverged = ~loss.isfinite() | ~(length_of_step(optimizers) <= LONGEST)
    here = loss.device.type == "cpu"
    if not (here and diverged):
        for optimizer in optimizers:
            if not here:
                zero_gradients(optimizer, diverged)
            optimizer.step()
    if not here or diverged:
        restore(saved, diverged)
    return loss.masked_fill(diverged, torch.nan)


def save_buffers(*models: nn.Module) -> Saved:
    """Return copies of what a pass may change: a batch norm that is not finite once stays so."""
    buffers = [buffer for model in models for buffer in model.buffers()]
    copies: list[Tensor] = [*buffers]
    for numbers in by_kind(buffers):
        parts = split_like(flat(buffers, numbers), [buffers[number] for number in numbers])
        for number, part in zip(numbers, parts, strict=True):
            copies[number] = part
    return list(zip(buffers, copies, strict=True))


def restore(saved: Saved, diverged: Tensor) -> None:
    """Restore what was saved if the step has diverged: a few kernels, however many tensors."""
    if not saved:
        return
    places, copies = zip(*saved, strict=True)
    for numbers in by_kind(places):
        right = torch.where(diverged, flat(copies, numbers), flat(places, numbers))
        group = [places[number] for number in numbers]
        torch._foreach_copy_(group, split_like(right, group))


def by_kind(tensors: Sequence[Tensor]) -> Iterable[list[int]]:
    """Return the numbers of tensors, grouped by type and device."""
    groups: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for number, tensor in enumerate(tensors):
        groups.setdefault((tensor.dtype, tensor.device), []).append(number)
    return groups.values()


def flat(tensors: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    """Return some of the tensors, concatenated as one row."""
    return torch.cat([tensors[number].reshape(-1) for number in numbers])


def split_like(row: Tensor, shapes: Sequence[Tensor]) -> list[Tensor]:
    """Return a row of numbers, split into tensors of these shapes."""
    parts = row.split([shape.numel() for shape in shapes])
    return [part.view(shape.shape) for part, shape in zip(parts, shapes, strict=True)]


def length_of_step(optimizers: Sequence[Optimizer]) -> Tensor:
    """Return the length of a step of plain descent at most: rates times norms of gradients."""
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


def zero_gradients(optimizer: Optimizer, diverged: Tensor) -> None:
    """Set all gradients to 0 if the step has diverged."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is not None:
                weight.grad.masked_fill_(diverged, 0)
