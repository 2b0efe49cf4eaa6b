"""Symmetric cross entropy: Wang, Ma, Chen, Luo, Yi and Bailey, ICCV 2019, their SL."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tamis.losses.entropy import cross_entropy
from tamis.losses.targets import as_shares


@dataclass(frozen=True)
class SCE:
    """Cross entropy, and that of the target under the probabilities, with log 0 set to `log_zero`.

    In the paper's letters: entropy_weight is alpha, reverse_weight is beta, log_zero is A. The
    reverse part is -A (1 - p of the class) for a class number: bounded, and symmetric as MAE is.
    """

    entropy_weight: float = 0.1
    reverse_weight: float = 1.0
    log_zero: float = -4.0

    def __post_init__(self) -> None:
        if self.entropy_weight < 0 or self.reverse_weight < 0 or self.log_zero >= 0:
            raise ValueError(f"SCE needs weights >= 0 and log_zero < 0, got {self}.")

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        entropy = cross_entropy(logits, targets)
        log_shares = as_shares(targets, logits).log().clamp_min(self.log_zero)
        reverse = -(logits.softmax(dim=1) * log_shares).sum(dim=1)
        return self.entropy_weight * entropy + self.reverse_weight * reverse
