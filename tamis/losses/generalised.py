"""Generalised cross entropy: Zhang and Sabuncu, NeurIPS 2018, section 3.2."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.losses.targets import at_target


@dataclass(frozen=True)
class GCE:
    """Between the cross entropy, power near 0, and half the mean absolute error, power 1.

    `power` is the paper's q. (1 - p^q) / q is written with a logarithm, since the gradient of p^q
    is infinite where p is rounded to 0.
    """

    power: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise ValueError(f"GCE has a power in (0, 1], got {self.power}.")

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        each = -torch.expm1(self.power * logits.log_softmax(dim=1)) / self.power
        return at_target(each, targets)
