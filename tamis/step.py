"""One step of the optimiser on picked rows, and CUDA graphs to play such things back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.local import casting
from tamis.losses import Criterion

PLAIN_CALLS = 3
"""Calls before a graph is recorded: lazy state of the optimiser and of cuDNN is made in them."""


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
        """Do the step, and return the mean loss from before it."""
        self.model.train()
        with casting(inputs.device, self.precision):
            losses = self.criterion(self.model(inputs), targets)
        loss = (losses if weights is None else losses * weights).mean()
        descend(loss, self.optimizer)
        return loss.detach()


def descend(loss: Tensor, *optimizers: Optimizer) -> None:
    """Do a step of each optimiser. A loss that is not finite changes no weight by its gradient."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    finite = loss.detach().isfinite()
    if loss.device.type == "cpu" and not finite:
        return
    loss.backward()
    for optimizer in optimizers:
        if loss.device.type != "cpu":  # which is not waited for, so it goes on as if nothing was
            drop_gradients(optimizer, ~finite)
        optimizer.step()


def drop_gradients(optimizer: Optimizer, spoilt: Tensor) -> None:
    """Set all gradients to 0 if they are spoilt."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is not None:
                weight.grad.masked_fill_(spoilt, 0)


class Graph:
    """Plays a function of tensors back as one CUDA graph, recorded after a few plain calls.

    The function answers with tensors only, and finds everything but its arguments where it was
    when it was recorded. It is recorded again where `key` or a shape changes.
    """

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._key: object = None
        self._calls = 0

    def __call__(
        self, key: object, run: Callable[..., tuple[Tensor, ...]], *given: Tensor
    ) -> tuple[Tensor, ...]:
        """Run the function on what is given, and return what it answers."""
        key = (key, [(part.shape, part.dtype) for part in given])
        if key != self._key:
            self._key, self._calls = key, 0
        self._calls += 1
        if self._calls <= PLAIN_CALLS:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                answer = run(*given)
            torch.cuda.current_stream().wait_stream(self._stream)
            return answer
        if self._calls == PLAIN_CALLS + 1:
            self._given = tuple(part.clone() for part in given)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._stream):
                self._answer = run(*self._given)
        for place, part in zip(self._given, given, strict=True):
            place.copy_(part)
        self._graph.replay()
        return tuple(part.clone() for part in self._answer)
