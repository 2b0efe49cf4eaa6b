"""Plausible with one part left out, to measure what the part is worth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tamis.selectors import Plausible
from tamis.selectors.plausible import (
    Calibration,
    ClassBalance,
    Confusion,
    Fallback,
    FirstLooks,
    Neighbours,
)


class NoClassBalance(ClassBalance):
    """Leaves votes and predictions as they are."""

    def update(
        self, label_shares: Tensor, votes: Tensor, probabilities: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return votes and probabilities unchanged."""
        return votes, probabilities


class FullTrust(Calibration):
    """Trusts the evidence from the first slot on."""

    def earned(self) -> float:
        """Return 1."""
        return 1.0


class UniformConfusion(Confusion):
    """Takes all wrong labels of a class for equally likely."""

    def counts(self, joint: Tensor, rows: Tensor | int) -> Tensor:
        """Return a count of 1 for each class and label."""
        return torch.ones_like(joint)


class StrictNeighbours(Neighbours):
    """Weights voters by the probability of their labels, however seldom rows are used."""

    def strictness(self) -> float:
        """Return 1."""
        return 1.0


class NoFirstLooks(FirstLooks):
    """Takes no row for new."""

    def update(self, pool_ids: Tensor, rows: Tensor) -> Tensor:
        """Return a mask of no rows."""
        return torch.zeros_like(rows, dtype=torch.bool)


ABLATIONS: dict[str, Callable[[], Plausible]] = {
    "neighbours": lambda: Plausible(vote_weight=0),
    "predictions": lambda: Plausible(model_weight=0),
    "class balance": lambda: Plausible(class_balance=NoClassBalance()),
    "second reading": lambda: Plausible(calibration=Calibration(scattered=(0.0, 1e-6))),
    "earned trust": lambda: Plausible(calibration=FullTrust()),
    "confusion": lambda: Plausible(confusion=UniformConfusion()),
    "reuse": lambda: Plausible(neighbours=StrictNeighbours()),
    "first looks": lambda: Plausible(first_looks=NoFirstLooks()),
    "pseudo-labels": lambda: Plausible(pseudo_labels=False),
    "confidence weight": lambda: Plausible(confidence_weight=0),
    "difficulty weight": lambda: Plausible(difficulty_weight=0),
    "fallback": lambda: Plausible(fallback=Fallback(power=0, softness=0)),
}
"""By the name of the part that is left out."""
