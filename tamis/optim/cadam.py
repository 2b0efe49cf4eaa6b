"""CAdam, Adam with confidence-gated updates: Wang et al., arXiv 2411.19647, algorithm 1."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from tamis.optim.base import GroupOptimizer


class CAdam(GroupOptimizer):
    """Adam that moves a weight only where its momentum and its gradient point the same way.

    A weight whose gradient opposes its momentum is not moved, while the momentum is still updated:
    a turn that was noise passes, a turn that lasts turns the momentum too.

    `lr` is the paper's alpha; defaults are the paper's. `amsgrad` divides by the largest second
    moment so far. `weight_decay`, which the paper has not, is that of AdamW: apart from the
    gradient, so that it does not take part in the comparison of signs.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
        }
        super().__init__(params, settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; torch's constructor calls it too."""
        settings = {**self.defaults, **param_group}
        for name in ("lr", "eps", "weight_decay"):
            if not 0 <= settings[name] < math.inf:
                raise ValueError(f"CAdam needs {name} at least 0 and finite, got {settings[name]}.")
        if not all(0 < beta < 1 for beta in settings["betas"]):
            raise ValueError(f"CAdam needs betas in (0, 1), got {settings['betas']}.")
        super().add_param_group(param_group)

    def _update(self, group: dict[str, Any]) -> None:
        """Lines 3 to 15, each of them over all parameters of a group at once."""
        weights = [weight for weight in group["params"] if weight.grad is not None]
        if not weights:
            return
        gradients = [weight.grad for weight in weights]
        states = [self._state_of(weight, group["amsgrad"]) for weight in weights]
        steps, first, second = (
            [state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq")
        )
        (first_decay, second_decay), lr = group["betas"], group["lr"]

        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(first, gradients, 1 - first_decay)
        torch._foreach_mul_(second, second_decay)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - second_decay)

        scale = torch._foreach_div(second, missing(steps, second_decay))
        if group["amsgrad"]:
            largest = [state["max_exp_avg_sq"] for state in states]
            torch._foreach_maximum_(largest, scale)
            torch._foreach_copy_(scale, largest)
        torch._foreach_sqrt_(scale)
        torch._foreach_add_(scale, group["eps"])

        # Line 14. Signs and not their product: that of two small numbers may round to 0.
        moves = torch._foreach_sign(first)
        torch._foreach_mul_(moves, torch._foreach_sign(gradients))
        torch._foreach_clamp_min_(moves, 0)
        torch._foreach_mul_(moves, first)
        torch._foreach_div_(moves, missing(steps, first_decay))
        torch._foreach_div_(moves, scale)

        torch._foreach_mul_(weights, 1 - lr * group["weight_decay"])
        torch._foreach_add_(weights, moves, alpha=-lr)

    def _state_of(self, weight: Tensor, amsgrad: bool) -> dict[str, Any]:
        """Return the moments of a parameter. The count is on its device, so that nothing waits."""
        state: dict[str, Any] = self.state[weight]
        if not state:
            precise = torch.promote_types(weight.dtype, torch.float32)
            state["step"] = torch.zeros((), dtype=precise, device=weight.device)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
            if amsgrad:
                state["max_exp_avg_sq"] = torch.zeros_like(weight)
        return state


def missing(steps: list[Tensor], decay: float) -> tuple[Tensor, ...]:
    """Return 1 - decay^step, by which an average that began at 0 is divided."""
    powers = torch._foreach_mul(steps, math.log(decay))
    torch._foreach_expm1_(powers)
    torch._foreach_neg_(powers)
    return powers
