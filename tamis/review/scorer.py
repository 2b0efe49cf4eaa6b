"""How likely each label is wrong, by the model, the neighbours of a row, and the confusion."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float
from tamis.noise import pairs
from tamis.review.calibration import LEAST_ROWS, SUSPECT, Calibration, fit_calibration, judge
from tamis.review.held_labels import (
    LIKELIEST,
    DenseLabels,
    HeldLabels,
    SparseLabels,
    likeliest,
)
from tamis.review.judge import SoftLabels, leave_one_out, random_features
from tamis.selectors.plausible.candidates import in_range

SMOOTHING = 0.003
"""Share that unanimous neighbours leave to every other class."""
SHARPNESS = 40.0
"""Inverse temperature of the weights of neighbours."""
TOLERANCE = 0.01
"""Rounding error of votes, which should sum to 1, on the scale of logarithms."""
MOST_HELD = 10_000
"""Rows held that others are compared with, at the most: the cost is a product of the two."""
CHUNK = 1024
"""Rows compared with all rows held at once."""
MOST_NUMBERS = 2**22
"""Numbers in a matrix of rows by classes, or by rows held, where there are many classes."""


def spread_over(held: Samples, most: int = MOST_HELD) -> Samples:
    """Return the rows held, or, of more than `most`, every second, third, and so on."""
    step = -(-len(held) // most)
    return held if step <= 1 else held[torch.arange(0, len(held), step, device=held.ids.device)]


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
    doubted sooner than one that is never. From 100 rows held on, scores are calibrated: their mean
    on these rows is 1 - `clean_ratio`, the estimated share of wrong labels.

    With more than 128 classes, the confusion is that of each row's label with its 8 likeliest
    classes, and the 64 nearest rows vote: no matrix of classes by classes, or of rows held by
    classes, is kept.
    """

    def __init__(
        self, view: ModelView, held: Samples | None = None, *, calibrate: bool = True
    ) -> None:
        self.view = view
        self._calibrate = calibrate
        self._count = 0  # of classes, once there was a row
        self._held: HeldLabels | None = None
        self._ids: Tensor | None = None
        self._rows: Samples | None = None
        self._features: Tensor | None = None
        if held is None or not len(held):
            return
        classes: Tensor | None = None
        if self._many(held):
            classes, log_probabilities = self._likeliest(held)
        else:
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
            classes = None if classes is None else classes[usable]
        self._held = (
            DenseLabels(log_probabilities, held.labels)
            if classes is None
            else SparseLabels(classes, log_probabilities, held.labels, self._count)
        )
        self._rows = held
        if features is None:
            return
        self._ids = held.ids
        self._features = features if usable.all() else features[usable]
        self._vectors = self._scaler.unit_vectors(self._features)

    @property
    def confusion(self) -> Tensor | None:
        """The confusion matrix of the labels held; None without any, or with many classes."""
        return self._held.confusion if isinstance(self._held, DenseLabels) else None

    def log_posterior(self, samples: Samples) -> Tensor:
        """Return the log posterior of each class for each row, given its label and neighbours."""
        found = self._log_probabilities(samples.inputs)
        if self._held and self._ids is not None:
            parts = zip(samples.inputs.split(CHUNK), samples.ids.split(CHUNK), strict=True)
            near = (self._near(inputs, ids, self._ids) for inputs, ids in parts)
            votes = torch.cat([self._held.votes(part) for part in near])
            found = found + (votes + SMOOTHING).log()
        if self._held:
            found = found + self._held.log_relative(samples.labels)
        return found.log_softmax(dim=1)

    @property
    def clean_ratio(self) -> float | None:
        """The estimated share of right labels among the rows held; None with too few of them."""
        return self.calibration.clean_ratio if self.calibration else None

    @property
    def threshold(self) -> float:
        """The score above which a label is suspect."""
        return self.calibration.threshold if self.calibration else SUSPECT

    def scores(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return the probability that each label is wrong, and the likeliest other class."""
        leads, others = self._leads(samples)
        return self.calibration.scores(leads) if self.calibration else leads.sigmoid(), others

    def candidates(self, samples: Samples) -> Tensor:
        """Return the rows that may be suspects, found without their neighbours.

        Votes of neighbours differ by a factor of `(1 + SMOOTHING) / SMOOTHING` at the most. Most
        rows of a trained model are beyond that, and need no comparison.
        """
        lead = torch.empty(len(samples), dtype=torch.double, device=samples.labels.device)
        for rows in self._parts(samples):
            part = samples[rows]
            found = self._log_probabilities(part.inputs)
            if self._held:
                found = found + self._held.log_relative(part.labels)
            lead[rows], _ = lead_of_other(found, part.labels)
        least = self.calibration.least_lead if self.calibration else 0.0
        most = math.log((1 + SMOOTHING) / SMOOTHING)
        return (lead > least - most - TOLERANCE).nonzero()[:, 0]

    @cached_property
    def calibration(self) -> Calibration | None:
        """How scores follow from leads; None with fewer than `LEAST_ROWS` rows held.

        Nothing in it may depend on labels that the model has memorised. So labels are predicted
        by linear models, each by the other rows alone. The one on the features of the model is
        accurate, and fits the clean ratio. Those on random features of the inputs know nothing of
        the model, and show how far its evidence can be trusted.
        """
        if not self._calibrate or not self._held or not self._rows:
            return None
        if len(self._rows) < LEAST_ROWS:
            return None
        labels, classes = self._rows.labels.cpu(), self._count
        leads = self._leads(self._rows)[0].cpu()
        given = SoftLabels(labels[:, None], torch.ones(len(labels), 1))
        probable, inputs = self._held.posteriors(), random_features(self._rows.inputs)
        guess = leads.sigmoid().mean().item()
        apart = [
            judge(leave_one_out(inputs, targets, classes), labels, classes, guess)
            for targets in (given, probable)
        ]
        by_features = apart[-1]
        if self._features is not None:
            by_features = judge(
                leave_one_out(self._features, probable, classes), labels, classes, guess
            )
        # Measured: the one errs on the low side, the other on the high side.
        clean_ratio = (by_features.clean_ratio + 1 - guess) / 2
        return fit_calibration(leads, clean_ratio, apart, classes)

    def _leads(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return the log odds of the likeliest other class against the label, and that class."""
        lead = torch.empty(len(samples), dtype=torch.double, device=samples.labels.device)
        other = torch.empty_like(samples.labels)
        for rows in self._parts(samples):
            part = samples[rows]
            lead[rows], other[rows] = lead_of_other(self.log_posterior(part), part.labels)
        return lead, other

    def _likeliest(self, held: Samples) -> tuple[Tensor, Tensor]:
        """Return the likeliest classes of each row, and their log probabilities."""
        width = 1 + min(LIKELIEST, self._count - 1)
        classes = held.labels.new_empty(len(held), width)
        found = torch.empty_like(classes, dtype=torch.double)
        # Small results kept between large temporaries would keep malloc from reusing these.
        for rows in self._parts(held):
            part = held[rows]
            log_probabilities = self._log_probabilities(part.inputs)
            classes[rows], found[rows] = likeliest(log_probabilities, part.labels)
        return classes, found

    def _near(self, inputs: Tensor, ids: Tensor, held: Tensor) -> Tensor:
        """Return the scaled similarity of rows to those held; no row is near to itself."""
        near = SHARPNESS * self._scaler.unit_vectors(self.view.features(inputs)) @ self._vectors.T
        return near.masked_fill_(ids[:, None] == held, -torch.inf)

    def _log_probabilities(self, inputs: Tensor) -> Tensor:
        """Return log probabilities in double precision: single rounds confident rows to 0."""
        return self.view.logits(inputs).double().log_softmax(dim=1)

    def _many(self, samples: Samples) -> bool:
        """Return whether there are many classes."""
        if not self._count and len(samples):
            self._count = self.view.logits(samples.inputs[:1]).shape[1]
        return self._count > pairs.MANY_CLASSES

    def _parts(self, samples: Samples) -> list[slice]:
        """Return slices of all rows; of many classes, few rows at a time."""
        if not self._many(samples) or not len(samples):
            return [slice(None)]
        widest = self._count if self._ids is None else max(self._count, len(self._ids))
        size = max(1, MOST_NUMBERS // widest)
        return [slice(at, at + size) for at in range(0, len(samples), size)]


def lead_of_other(found: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far the highest of the other classes is ahead of the label, and that class."""
    best, other = found.scatter(1, labels[:, None], -torch.inf).max(dim=1)
    return best - found.gather(1, labels[:, None])[:, 0], other
