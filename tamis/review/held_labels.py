"""What the labels of the rows held reveal: which are confused, and the probable classes of rows."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from tamis.noise.pairs import matching_pairs
from tamis.review.judge import SoftLabels

ROUNDS = 10
"""Rounds of expectation and maximisation for the confusion matrix."""
LIKELIEST = 8
"""Classes of a row held that are kept, beside its label, where there are many."""
NEAREST = 64
"""Rows held that vote, where there are many classes."""


class HeldLabels(Protocol):
    """The confusion of the labels held, and the posterior of each row held by it."""

    def log_relative(self, labels: Tensor) -> Tensor:
        """Return the log of `relative_confusion` for these labels, (labels, classes)."""
        ...

    def votes(self, near: Tensor) -> Tensor:
        """Return the classes of the rows held, weighted by the softmax of `near`: (rows, held)."""
        ...

    def posteriors(self) -> SoftLabels:
        """Return the probable classes of the rows held."""
        ...


class DenseLabels:
    """The labels held of few classes: a share for each class and label, and for each row."""

    def __init__(self, log_probabilities: Tensor, labels: Tensor) -> None:
        self.confusion = fit_confusion(log_probabilities, labels)
        self._log_relative = relative_confusion(self.confusion).log()
        self._posteriors = (log_probabilities + self.confusion.log()[:, labels].T).softmax(dim=1)

    def log_relative(self, labels: Tensor) -> Tensor:
        """Return the log of `relative_confusion` for these labels."""
        return self._log_relative[:, labels].T

    def votes(self, near: Tensor) -> Tensor:
        """Return the classes of the rows held, weighted by the softmax of `near`."""
        return near.softmax(dim=1).nan_to_num_(0).to(self._posteriors.dtype) @ self._posteriors

    def posteriors(self) -> SoftLabels:
        """Return the probability of every class for each of the rows held."""
        rows, classes = self._posteriors.shape
        return SoftLabels(torch.arange(classes).expand(rows, classes), self._posteriors)


class SparseLabels:
    """The labels held of many classes: those pairs of class and label that occur.

    Of each row its label and its likeliest classes are kept, and only the nearest rows vote. The
    numbers are those of `DenseLabels` but for classes of next to no probability.

    `likely` are classes of each row and `log_probabilities` theirs, one of them the label's.
    """

    def __init__(
        self, likely: Tensor, log_probabilities: Tensor, labels: Tensor, classes: int
    ) -> None:
        self.classes, self._likely = classes, likely
        own = likely == labels[:, None]
        keys, place = (labels[:, None] * classes + likely).unique(return_inverse=True)
        self._given, self._pair_classes = keys // classes, keys % classes
        confusion = torch.where(own, 0.5, 0.5 / (classes - 1)).to(log_probabilities)
        for _ in range(ROUNDS):
            posteriors = (log_probabilities + confusion.log()).softmax(dim=1)
            pairs = sums_of(posteriors, place, len(keys))
            each = sums_of(posteriors, likely, classes)
            # One of each, so that nothing is impossible.
            confusion = (pairs[place] + 1) / (each[likely] + classes)
        self._posteriors = (log_probabilities + confusion.log()).softmax(dim=1)
        right = torch.where(self._given == self._pair_classes, pairs, 0)
        wrong = each - sums_of(right, self._pair_classes, classes) + classes - 1
        self._log_even = math.log(classes - 1) - wrong.log()
        self._log_counts = (pairs + 1).log()

    def log_relative(self, labels: Tensor) -> Tensor:
        """Return the log of `relative_confusion` for these labels."""
        found = self._log_even.repeat(len(labels), 1)
        rows, pairs = matching_pairs(labels, self._given)
        found[rows, self._pair_classes[pairs]] += self._log_counts[pairs]
        return found.scatter_(1, labels[:, None], 0)

    def votes(self, near: Tensor) -> Tensor:
        """Return the classes of the nearest rows held, weighted by the softmax of `near`."""
        nearest = near.topk(min(NEAREST, near.shape[1]), dim=1)
        weights = nearest.values.softmax(dim=1).nan_to_num_(0).to(self._posteriors.dtype)
        votes = weights[:, :, None] * self._posteriors[nearest.indices]
        found = votes.new_zeros(len(near), self.classes)
        return found.scatter_add_(1, self._likely[nearest.indices].flatten(1), votes.flatten(1))

    def posteriors(self) -> SoftLabels:
        """Return the likeliest classes of the rows held."""
        return SoftLabels(self._likely, self._posteriors)


def likeliest(log_probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the label and the likeliest other classes of each row, and their log probabilities."""
    own = labels[:, None]
    others = log_probabilities.scatter(1, own, -torch.inf)
    found, classes = others.topk(min(LIKELIEST, others.shape[1] - 1), dim=1)
    mine = log_probabilities.gather(1, own)
    return torch.cat([own, classes], dim=1), torch.cat([mine, found], dim=1)


def sums_of(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Return the sum of the values at each place."""
    sums = values.new_zeros(count)
    return sums.index_put_((places.flatten(),), values.flatten(), accumulate=True)


def fit_confusion(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the share of each given label among the rows of each class, fitted by EM."""
    classes = log_probabilities.shape[1]
    given = functional.one_hot(labels, classes).to(log_probabilities.dtype)
    confusion = torch.full_like(
        log_probabilities.new_empty(classes, classes), 0.5 / max(1, classes - 1)
    )
    confusion.fill_diagonal_(0.5)
    for _ in range(ROUNDS):
        posteriors = (log_probabilities + confusion.log()[:, labels].T).softmax(dim=1)
        counts = posteriors.T @ given + 1  # one of each, so that nothing is impossible
        confusion = counts / counts.sum(dim=1, keepdim=True)
    return confusion


def relative_confusion(confusion: Tensor) -> Tensor:
    """Return how often a class gets each wrong label, relative to an even spread; 1 for its own.

    >>> relative_confusion(torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))[0]
    tensor([1., 2., 0.])
    """
    own = torch.eye(len(confusion)).to(confusion)
    wrong = confusion * (1 - own)
    return wrong / wrong.sum(dim=1, keepdim=True) * (len(confusion) - 1) + own
