"""Running means, and the states of several parts in one dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]


class Part(Protocol):
    """Anything with a state of tensors."""

    def state_dict(self) -> State:
        """Return the state; empty before the first slot."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        ...


class RunningMean:
    """An exponential moving average that begins with the first value.

    It follows the values to their device and precision.
    """

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.value: Tensor | None = None

    def update(self, newest: Tensor) -> Tensor:
        """Return the mean with one more value in it, which has a share of `pace`."""
        mean = self.value
        self.value = newest if mean is None else mean.to(newest).lerp(newest, self.pace)
        return self.value

    def grow(self, classes: int) -> None:
        """Add zeros to a mean by class, up to so many."""
        if self.value is not None:
            self.value = functional.pad(self.value, (0, max(0, classes - len(self.value))))

    def restart(self, newest: Tensor, stale: Tensor) -> None:
        """Begin again with a value where what there is is stale; nothing waits for the device."""
        if self.value is not None:
            self.value = torch.where(stale, newest, self.value.to(newest))

    def state_dict(self) -> State:
        """Return the mean; nothing before the first value."""
        return {} if self.value is None else {"value": self.value.clone()}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self.value = state["value"].clone() if state else None


def join_states(parts: Mapping[str, Part]) -> State:
    """Return the states of all parts, each key behind the name of its part and a dot."""
    return {
        f"{name}.{key}": value
        for name, part in parts.items()
        for key, value in part.state_dict().items()
    }


def load_states(parts: Mapping[str, Part], state: State) -> None:
    """Restore the parts from what `join_states` returned."""
    for name, part in parts.items():
        start = f"{name}."
        part.load_state_dict(
            {key.removeprefix(start): state[key] for key in state if key.startswith(start)}
        )
