"""Ramp loss: Ghosh, Manwani and Sastry, Neurocomputing 2015, here between pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tamis.losses.targets import at_target


@dataclass(frozen=True)
class Ramp:
    """Mean over the other classes of the binary ramp of the lead over each, from 0 to 2.

    The binary ramp is a hinge cut off at 2, so that ramp(lead) + ramp(-lead) = 2. Taken over
    pairs, it stays symmetric for any number of classes: over all that a label might name, it sums
    to their number. The clipped multi-class hinge, with its lead over the best other class alone,
    does not. `steepness` is the paper's beta. A row outside of every ramp has no gradient.
    """

    steepness: float = 1.0

    def __post_init__(self) -> None:
        if self.steepness <= 0:
            raise ValueError(f"A ramp has a steepness above 0, got {self.steepness}.")

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        if not targets.is_floating_point():
            return self._over_others(at_target(logits, targets)[:, None], logits)
        each = self._over_others(logits[:, :, None], logits[:, None, :])
        return at_target(each, targets)

    def _over_others(self, own: Tensor, all_classes: Tensor) -> Tensor:
        ramps = (1 - self.steepness * (own - all_classes)).clamp(0, 2)
        others = all_classes.shape[-1] - 1
        return (ramps.sum(dim=-1) - 1) / max(1, others)  # against itself a class has a ramp of 1
