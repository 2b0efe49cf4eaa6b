"""What is remembered of a model's weights: the last w states, or their running average."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

State = dict[str, Tensor]
CURRENT: State = {}
"""The weights that the model has now; they need not be passed to it."""


class Window:
    """The last `length` states of a model (w in the paper). A length of 1 is the model itself."""

    def __init__(self, length: int = 1) -> None:
        if length < 1:
            raise ValueError(f"A window holds at least 1 state, got {length}.")
        self.length = length
        self._states: deque[State] = deque(maxlen=length)

    def update(self, model: nn.Module) -> None:
        """Add the model's state; call it once after each training step."""
        if self.length > 1:
            self._states.append(copy_of(state_of(model)))

    def states(self, model: nn.Module) -> list[State]:
        """Return the states to average over, oldest first."""
        return list(self._states) or [CURRENT]

    def change(self, change: Callable[[State], State]) -> None:
        """Change all states, as where the model has got more units."""
        self._states = deque(map(change, self._states), maxlen=self.length)

    def state_dict(self) -> dict[str, list[State]]:
        """Return the states, oldest first; none for a length of 1."""
        return {"states": list(self._states)}

    def load_state_dict(self, state: dict[str, list[State]]) -> None:
        """Restore what `state_dict` returned."""
        self._states = deque(map(copy_of, state["states"]), maxlen=self.length)


class Average:
    """The exponential moving average of a model's weights.

    The first states weigh more than by `decay`, so that the random start is soon forgotten:
    after n steps the decay is at most (1 + n) / (10 + n), as in TensorFlow's moving average.
    """

    def __init__(self, decay: float = 0.99) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"The decay of an average lies in [0, 1), got {decay}.")
        self.decay = decay
        self.steps = 0
        self._state: State | None = None

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model's state; call it once after each training step."""
        newest = state_of(model)
        if self._state is None:
            self._state = copy_of(newest)
        self.steps += 1
        share = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        pairs = [(value, newest[name]) for name, value in self._state.items()]
        real = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, values = zip(*real, strict=True)
        torch._foreach_lerp_(averages, values, share)
        integers = [pair for pair in pairs if not pair[0].is_floating_point()]  # of batch norm
        if integers:
            counters, newer = (list(part) for part in zip(*integers, strict=True))
            torch._foreach_copy_(counters, newer)

    def states(self, model: nn.Module) -> list[State]:
        """Return the average as the one state to look through."""
        return [self._state or CURRENT]

    def change(self, change: Callable[[State], State]) -> None:
        """Change the average, as where the model has got more units."""
        self._state = None if self._state is None else change(self._state)

    def state_dict(self) -> dict[str, Any]:
        """Return the average, None before the first step, and the steps that it is over."""
        return {"average": self._state, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._state = None if state["average"] is None else copy_of(state["average"])
        self.steps = state["steps"]


def state_of(model: nn.Module) -> State:
    """Return the model's parameters and buffers by name, detached, not copied."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: value.detach() for name, value in named}


def copy_of(state: State) -> State:
    """Return a state with its tensors copied."""
    return {name: value.clone() for name, value in state.items()}
