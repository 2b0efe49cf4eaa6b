"""How likely each label is wrong, by the model, the neighbours of a row, and the confusion."""

from __future__ import annotations

import math
from contextlib import suppress

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float
from tamis.selectors.plausible.candidates import in_range

SMOOTHING = 0.003
"""Share that unanimous neighbours leave to every other class."""
SHARPNESS = 40.0
"""Inverse temperature of the weights of neighbours."""
ROUNDS = 10
"""Rounds of expectation and maximisation for the confusion matrix."""
TOLERANCE = 0.01
"""Rounding error of votes, which should sum to 1, on the scale of logarithms."""
CHUNK = 1024
"""Rows compared with all rows held at once."""


class FeatureScaler:
    """Centres features and scales each to unit variance, by the rows it was fitted to.

    `usable` marks those rows: all but those with a feature far beyond that of most rows, or one
    that is not finite.
    """

    def __init__(self, features: Tensor) -> None:
        features = at_least_float(features)
        self.usable = in_range(features, features.isfinite().all(dim=1))
        features = features if self.usable.all() else features[self.usable]
        self._mean = features.mean(dim=0)
        self._deviation = features.std(dim=0, correction=0).clamp_min(1e-6)

    def unit_vectors(self, features: Tensor) -> Tensor:
        """Return scaled features of length 1: the product of two is their cosine similarity."""
        return functional.normalize((at_least_float(features) - self._mean) / self._deviation)


class LabelScorer:
    """Scores labels by the posterior probability of every class, given a row and its label.

    Without rows `held`, by the probabilities of the model alone. The rows held in a buffer add two
    things: the confusion matrix of their labels, fitted by expectation and maximisation, and the
    probable classes of the nearest neighbours. So a label that is often given by mistake is
    doubted sooner than one that is never. The overall noise rate plays no part: a model trained on
    noisy labels has it in its probabilities already.
    """

    def __init__(self, view: ModelView, held: Samples | None = None) -> None:
        self.view = view
        self.confusion: Tensor | None = None
        self._ids: Tensor | None = None
        if held is None or not len(held):
            return
        log_probabilities = self._log_probabilities(held.inputs)
        features: Tensor | None = None
        usable = log_probabilities.isfinite().all(dim=1)
        # Without a last linear layer there are no features to compare.
        with suppress(TypeError):
            features = view.features(held.inputs)
            self._scaler = FeatureScaler(features)
            usable &= self._scaler.usable
        if not usable.all():  # one such row would leave NaN in every number below
            held, log_probabilities = held[usable], log_probabilities[usable]
        self.confusion = fit_confusion(log_probabilities, held.labels)
        self._log_relative = relative_confusion(self.confusion).log()
        if features is None:
            return
        self._ids = held.ids
        self._vectors = self._scaler.unit_vectors(features if usable.all() else features[usable])
        self._posteriors = (log_probabilities + self.confusion.log()[:, held.labels].T).softmax(
            dim=1
        )

    def log_posterior(self, samples: Samples) -> Tensor:
        """Return the log posterior of each class for each row, given its label and neighbours."""
        found = self._log_probabilities(samples.inputs)
        if self._ids is not None:
            parts = zip(samples.inputs.split(CHUNK), samples.ids.split(CHUNK), strict=True)
            votes = torch.cat([self._votes(inputs, ids, self._ids) for inputs, ids in parts])
            found = found + (votes + SMOOTHING).log()
        if self.confusion is not None:
            found = found + self._log_relative[:, samples.labels].T
        return found.log_softmax(dim=1)

    def scores(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return p(other) / (p(other) + p(given)) for the likeliest other class, and that class."""
        log_posterior = self.log_posterior(samples)
        given = log_posterior.gather(1, samples.labels[:, None])[:, 0]
        best, other = log_posterior.scatter(1, samples.labels[:, None], -torch.inf).max(dim=1)
        return (best - given).sigmoid(), other

    def candidates(self, samples: Samples) -> Tensor:
        """Return the rows whose score may exceed 0.5, found without their neighbours.

        Votes of neighbours differ by a factor of `(1 + SMOOTHING) / SMOOTHING` at the most. Most
        rows of a trained model are beyond that, and need no comparison.
        """
        found = self._log_probabilities(samples.inputs)
        if self.confusion is not None:
            found = found + self._log_relative[:, samples.labels].T
        given = found.gather(1, samples.labels[:, None])[:, 0]
        best = found.scatter(1, samples.labels[:, None], -torch.inf).max(dim=1).values
        most = math.log((1 + SMOOTHING) / SMOOTHING)
        return (best - given > -most - TOLERANCE).nonzero()[:, 0]

    def _votes(self, inputs: Tensor, ids: Tensor, held: Tensor) -> Tensor:
        """Return the votes of the rows held, weighted by similarity; no row votes for itself."""
        near = SHARPNESS * self._scaler.unit_vectors(self.view.features(inputs)) @ self._vectors.T
        near.masked_fill_(ids[:, None] == held, -torch.inf)
        return near.softmax(dim=1).nan_to_num_(0).to(self._posteriors.dtype) @ self._posteriors

    def _log_probabilities(self, inputs: Tensor) -> Tensor:
        """Return log probabilities in double precision: single rounds confident rows to 0."""
        return self.view.logits(inputs).double().log_softmax(dim=1)


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
