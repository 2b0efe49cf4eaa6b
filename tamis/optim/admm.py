"""Online ADMM: Wang and Banerjee, ICML 2012, with the linearised step of Suzuki, ICML 2013."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softshrink
from torch.optim.optimizer import ParamsT

from tamis.optim.base import GroupOptimizer


class ADMM(GroupOptimizer):
    """Alternating direction method of multipliers, for convex models.

    Minimises loss(theta) + weight_decay / 2 |z|^2 + sparsity |z|_1 where theta = z. The model holds
    theta, which follows the gradient; `state[parameter]` holds z, which has the exact zeros, and u,
    the scaled dual that draws the two together. A bias goes unregularised by a group of its own.

    `lr` (torch's name, so that its schedulers work) and `rho` are Suzuki's eta and rho. Both are
    constant by default, at values of our own; docs/methods/admm.md describes how to set them.
    """

    like_weights = ("z",)  # where a parameter grows, so does its copy

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.1,
        rho: float = 1.0,
        weight_decay: float = 0.0,
        sparsity: float = 0.0,
    ) -> None:
        settings = {"lr": lr, "rho": rho, "weight_decay": weight_decay, "sparsity": sparsity}
        super().__init__(params, settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; torch's constructor calls it too."""
        settings = {**self.defaults, **param_group}
        for name in ("lr", "rho"):
            if not 0 < settings[name] < math.inf:
                raise ValueError(f"ADMM needs {name} above 0 and finite, got {settings[name]}.")
        for name in ("weight_decay", "sparsity"):
            if not 0 <= settings[name] < math.inf:
                raise ValueError(f"ADMM needs {name} at least 0 and finite, got {settings[name]}.")
        super().add_param_group(param_group)

    def _update(self, group: dict[str, Any]) -> None:
        for theta in group["params"]:
            if theta.grad is not None:
                self._move(theta, theta.grad, group)

    def _move(self, theta: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Update theta, z and u, in this order."""
        state, lr, rho = self.state[theta], group["lr"], group["rho"]
        if not state:
            state["z"], state["u"] = theta.clone(), torch.zeros_like(theta)
        z, u = state["z"], state["u"]
        theta -= lr / (1 + lr * rho) * (gradient + rho * (theta - z + u))
        z.copy_(softshrink(theta + u, group["sparsity"] / rho) / (1 + group["weight_decay"] / rho))
        u += theta - z
