"""Loss correction: Patrini, Rozza, Menon, Nock and Qu, CVPR 2017, theorems 1 and 2.

The first is, over two classes, the unbiased estimator of Natarajan, Dhillon, Ravikumar and Tewari,
NeurIPS 2013, lemma 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from tamis.losses.confusion import (
    RunningConfusion,
    check_confusion,
    check_size,
    given_log_shares,
    matrix_for,
)
from tamis.losses.targets import at_least_single, at_target


@dataclass(frozen=True, eq=False)
class Corrected(ABC):
    """A loss that holds a confusion, and counts each batch where that is a running one."""

    confusion: Tensor | RunningConfusion = field(default_factory=RunningConfusion)

    def __post_init__(self) -> None:
        if isinstance(self.confusion, Tensor):
            check_confusion(self.confusion)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row, then count the batch where the confusion is a running one."""
        losses = self._losses(logits, targets)
        if isinstance(self.confusion, RunningConfusion):
            self.confusion.update(logits, targets)
        return losses

    @property
    def cannot_grow(self) -> str:
        """A sentence where the confusion is known, and knows no other classes."""
        if isinstance(self.confusion, RunningConfusion):
            return ""
        name = type(self).__name__
        return f"The confusion of {name} was given for {len(self.confusion)} classes and no others."

    def grow(self, classes: int) -> None:
        """Count by so many classes."""
        if isinstance(self.confusion, RunningConfusion):
            self.confusion.grow(classes)

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a running confusion has counted; a known one counts nothing."""
        return self.confusion.state_dict() if isinstance(self.confusion, RunningConfusion) else {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        if isinstance(self.confusion, RunningConfusion):
            self.confusion.load_state_dict(state)

    @abstractmethod
    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per row."""


@dataclass(frozen=True, eq=False)
class Forward(Corrected):
    """Cross entropy of the given label under probabilities passed through the confusion.

    Patrini et al., theorem 2. `confusion` is a matrix, true class by given class, or one that is
    estimated on the way.
    """

    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        log_shares = given_log_shares(logits, matrix_for(self.confusion, logits))
        return -at_target(log_shares, targets)


@dataclass(frozen=True, eq=False)
class Backward(Corrected):
    """Cross entropies of all classes, weighed so that their mean over given labels is right.

    Patrini et al., theorem 1: the row of the inverse confusion that the given label names. With two
    classes that is the unbiased estimator of Natarajan et al., the function `unbiased`; for more,
    it is its only extension, so there is no second class for it. Losses may be negative.

    Where the smallest singular value of the confusion is below `floor`, the inverse is that of
    `invert`, and the losses are no longer unbiased.
    """

    floor: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ValueError(f"The floor of singular values lies in (0, 1], got {self.floor}.")
        super().__post_init__()

    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(logits.device.type, enabled=False):
            each = -at_least_single(logits).log_softmax(dim=1)
            return at_target(each @ self._inverse(logits).to(each).T, targets)

    def _inverse(self, logits: Tensor) -> Tensor:
        known = self._known
        if known is None:
            return invert(matrix_for(self.confusion, logits), self.floor)
        check_size(known, logits.shape[1])
        return known

    @cached_property
    def _known(self) -> Tensor | None:
        if isinstance(self.confusion, RunningConfusion):
            return None
        return invert(self.confusion, self.floor)


def invert(confusion: Tensor, floor: float) -> Tensor:
    """Return the inverse of a confusion, with a ridge towards the identity if near-singular.

    B minimises |T B - I|^2 + ridge |B - I|^2, with the least ridge that lifts the smallest
    singular value of T to the floor: none where it is there already, and then B is the inverse.
    Rows of B sum to 1 as those of the inverse do. Where labels carry no
    information, the loss is left as it is: labels at random give B = I, the plain loss.
    """
    smallest = torch.linalg.svdvals(confusion)[-1]
    ridge = (floor**2 - smallest**2).clamp_min(0) * torch.eye(len(confusion)).to(confusion)
    inverse: Tensor = torch.linalg.solve(confusion.T @ confusion + ridge, confusion.T + ridge)
    return inverse


def unbiased(own: Tensor, other: Tensor, own_rate: float, other_rate: float) -> Tensor:
    """Natarajan et al., lemma 1: a loss over two classes whose mean over flips is the true loss.

    `own` is the loss under the label given, `other` under the one that is not; the rates are how
    often each class, when it is true, is given as the other: rho_y and rho_-y.
    """
    return ((1 - other_rate) * own - own_rate * other) / (1 - own_rate - other_rate)
