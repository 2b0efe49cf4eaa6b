"""What the optimisers here share: a step over all groups of parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, overload

import torch
from torch.optim import Optimizer


class GroupOptimizer(Optimizer):
    """An optimiser whose step updates each group of parameters by `_update`."""

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step for every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group)
        return loss

    @abstractmethod
    def _update(self, group: dict[str, Any]) -> None:
        """Update the parameters of a group."""
