"""Confusion of labels: a matrix that is known, or counted while training.

Row is the true class, column the class that is given, each row sums to 1: T in Patrini et al.,
CVPR 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from tamis.losses.targets import as_shares, at_least_single


@dataclass(eq=False)
class RunningConfusion:
    """Confusion matrix from a fading count of the model's probabilities by given label.

    A row counts half once `half_life` more rows were seen. To each class `prior` rows with the
    right label are added: the matrix is the identity at first, and stays close to it while few
    rows were seen. The loss that holds this one updates it, see `update`.
    """

    half_life: float = 5_000.0
    prior: float = 50.0
    _tally: Tensor = field(default_factory=lambda: torch.zeros(0, 0), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.half_life <= 0 or self.prior <= 0:
            raise ValueError(f"A running confusion needs half_life > 0 and prior > 0, got {self}.")

    def matrix(self, classes: int) -> Tensor:
        """Return the confusion so far, the identity before the first batch."""
        tally = self._held(classes)
        counts = tally + self.prior * torch.eye(classes, device=tally.device)
        return counts / counts.sum(dim=1, keepdim=True)

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Count a batch that is learned from, which is one seen with gradients on.

        Rows that are not finite are left out. Logits that are themselves
        the variable of a gradient come from a selector, which must change nothing.
        """
        of_selector = logits.is_leaf and logits.requires_grad
        if of_selector or not torch.is_grad_enabled():
            return
        with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
            shares = logits.float().softmax(dim=1)
            given = as_shares(targets, shares).float()
            finite = (shares + given).isfinite().all(dim=1, keepdim=True)
            counts = shares.where(finite, 0).T @ given.where(finite, 0)
            kept = 0.5 ** (finite.sum() / self.half_life)
            held = self._held(logits.shape[1]).to(logits.device)
            self._tally = held.mul_(kept).add_(counts)

    def grow(self, classes: int) -> None:
        """Add classes that were not counted so far, up to so many."""
        if len(self._tally):
            more = max(0, classes - len(self._tally))
            self._tally = functional.pad(self._tally, (0, more, 0, more))

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was counted so far, empty before the first batch."""
        return {"tally": self._tally.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a state."""
        self._tally = state["tally"].clone()

    def _held(self, classes: int) -> Tensor:
        if not len(self._tally):
            return torch.zeros(classes, classes)
        check_size(self._tally, classes)
        return self._tally


def matrix_for(confusion: Tensor | RunningConfusion, logits: Tensor) -> Tensor:
    """Return the matrix that fits these logits, where they are."""
    classes = logits.shape[1]
    if isinstance(confusion, RunningConfusion):
        return confusion.matrix(classes).to(logits.device)
    check_size(confusion, classes)
    return confusion.to(logits.device)


def given_log_shares(logits: Tensor, confusion: Tensor) -> Tensor:
    """Return the log probability of each given class: probabilities through the confusion.

    Probabilities are rounded to 0 some 100 below the highest logit. Where that leaves a class with
    none at all, the loss is that of the smallest positive number, with a gradient of 0.
    """
    with torch.autocast(logits.device.type, enabled=False):
        shares = at_least_single(logits).softmax(dim=1)
        given = shares @ confusion.to(shares.dtype)
        return given.clamp_min(torch.finfo(given.dtype).tiny).log()


def even_confusion(classes: int, right: float) -> Tensor:
    """Return a confusion with a share of right labels, and the wrong ones spread evenly.

    >>> even_confusion(3, 0.5)
    tensor([[0.5000, 0.2500, 0.2500],
            [0.2500, 0.5000, 0.2500],
            [0.2500, 0.2500, 0.5000]])
    """
    if not 0 <= right <= 1:
        raise ValueError(f"The share of right labels lies in [0, 1], got {right}.")
    if classes == 1:
        return torch.ones(1, 1)
    wrong = (1 - right) / (classes - 1)
    return torch.full((classes, classes), wrong).fill_diagonal_(right)


def check_confusion(matrix: Tensor) -> None:
    """Refuse what is not a confusion matrix."""
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or (matrix < 0).any():
        raise ValueError("A confusion matrix is square and has no negative entry.")
    rows = matrix.sum(dim=1)
    if not torch.allclose(rows, torch.ones_like(rows), atol=1e-4):
        raise ValueError(f"Each row of a confusion matrix sums to 1, got {rows.tolist()}.")


def check_size(matrix: Tensor, classes: int) -> None:
    """Refuse a matrix for another number of classes."""
    if len(matrix) != classes:
        raise ValueError(f"The confusion is over {len(matrix)} classes, the logits {classes}.")
