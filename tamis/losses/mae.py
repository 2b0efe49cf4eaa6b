"""Mean absolute error: Ghosh, Kumar and Sastry, AAAI 2017, tolerant by their theorem 1."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tamis.losses.targets import as_shares


@dataclass(frozen=True)
class MAE:
    """Distance between probabilities and target in the 1-norm: 2 - 2 p of the class, from 0 to 2.

    It is symmetric: over all classes that a label might name, it sums to 2 (classes - 1), whatever
    the probabilities. That makes it tolerant of labels that are wrong evenly. It learns slowly,
    since a row that the model assigns to another class has hardly any gradient.
    """

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""
        return (logits.softmax(dim=1) - as_shares(targets, logits)).abs().sum(dim=1)
