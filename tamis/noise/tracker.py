"""The running clean ratio of a stream, overall and per class, with confidence bands.

It needs only what a stream provides anyway: predictions made before a row is trained on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.noise.agreement import (
    BINS,
    OVERLAPS,
    RATIOS,
    TEMPERATURES,
    AgreementFit,
    Observed,
    accuracy_of,
    agreement,
    observe,
    rise_in_bins,
)
from tamis.noise.pairs import cells, off_diagonal, pairs_for, row_sums, to_shares

BAND = 1.353
"""Half of the 0.9 quantile of chi squared: the fall of the profile likelihood within a 90% band."""
LEAST_VARIANCE = 0.5
"""Variance of the agreements of a bin, below which the bin is left out of the misfit."""


class Estimate(NamedTuple):
    """A clean ratio with its 90% confidence band."""

    value: float
    low: float
    high: float


class Tracker(AgreementFit):
    """Estimates the clean ratio of a stream from how often labels agree with predictions.

    A label agrees with the model's prediction where both are right, or where both are wrong in the
    same way. The accuracy of the model is unknown, but it rises with confidence: among the most
    confident rows nearly every disagreement is a wrong label. So two numbers are fitted to the
    agreement at every level of confidence: the clean ratio, and a temperature that calibrates the
    model. Where the most confident rows show that wrong labels concentrate in few classes, the
    model's mistakes may concentrate there too, and by how much is a third number.

    After `half_life` more rows a row weighs half. Memory is a few numbers for each class and bin,
    however long the stream. The confusion of up to 128 classes is counted for each pair of them;
    that of more, among the rows of the last 16 half-lives, at most 65,536. The band accounts for
    sampling error and for the misfit of the two numbers, not for a model that is confident and
    wrong.

    >>> tracker = Tracker(classes=2)
    >>> probabilities = torch.tensor([[0.99, 0.01]]).repeat(1000, 1)
    >>> labels = torch.zeros(1000).long()
    >>> labels[:300] = 1
    >>> tracker.update(probabilities, labels)
    >>> round(tracker.estimate().value, 1)
    0.7
    """

    def __init__(self, classes: int, half_life: float = 1000.0) -> None:
        super().__init__(classes, half_life)
        self._pairs = pairs_for(classes, half_life)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Count rows, with the predictions that the model made before it was trained on them."""
        if len(labels):
            self.count(observe(probabilities, labels, self.classes))

    def count(self, rows: Observed) -> None:
        """Count rows that were observed before, as where two trackers share them."""
        super().count(rows)
        self._pairs.count(rows, self._fade(rows))

    def grow(self, classes: int) -> None:
        """Count by so many classes."""
        if classes > self.classes:
            rise = rise_in_bins(self.classes, classes)
            self._pairs = self._pairs.grow(classes, self.half_life, rise)
        super().grow(classes)

    def relabel(
        self, probabilities: Tensor, before: Tensor, after: Tensor, *, ages: Tensor
    ) -> None:
        """Count rows under the labels `after` that were counted under the labels `before`.

        `ages`: how many rows came after each. The confidence of the model when a row came is not
        kept; that of now, in `probabilities`, stands for it.
        """
        rows = observe(probabilities, before, self.classes)
        weights = rows.known * 0.5 ** (ages.double() / self.half_life)
        columns = (weights, rows.predicted, rows.labels, after, rows.bins)
        for weight, predicted, old, new, at in zip(*map(Tensor.tolist, columns), strict=True):
            # No more than is there: a row may have been counted at another confidence.
            moved = min(weight, self._rows[old, at].item())
            agreed = min(moved * (predicted == old), self._agreeing[old, at].item())
            self._rows[old, at] -= moved
            self._rows[new, at] += moved
            self._agreeing[old, at] -= agreed
            self._agreeing[new, at] += moved * (predicted == new)
            self._pairs.move(moved, predicted, old, new, at)

    def estimate(self) -> Estimate:
        """Return the clean ratio with its 90% band; [0, 1] before the first row."""
        if not self._rows.sum():
            return Estimate(0.5, 0.0, 1.0)
        fits = [self.likelihood(overlap) for overlap in range(1 + self._most_overlap())]
        best = max(range(len(fits)), key=lambda overlap: fits[overlap].max().item())
        profile = torch.stack(fits).amax(dim=(0, 2))
        inside = RATIOS[profile >= profile.max() - BAND * (1 + self._misfit(fits[best], best))]
        return Estimate(RATIOS[profile.argmax()].item(), inside.min().item(), inside.max().item())

    def by_class(self) -> Tensor:
        """Return the clean ratio of each given label; nan where there was no row."""
        right, rows = self._right(), self._rows.cpu()
        wrong = (1 - right) / (self.classes - 1)
        # Agreements expected if all labels were right, and if all were wrong.
        if_right, if_wrong = (rows * right).sum(dim=1), (rows * wrong).sum(dim=1)
        found = self._agreeing.cpu().sum(dim=1)
        return ((found - if_wrong) / (if_right - if_wrong)).clamp(0, 1)

    def confusion(self) -> Tensor:
        """Return the estimated confusion matrix: true class by given label, rows sum to 1.

        The prediction stands for the true class. A row counts by how far the probability that its
        prediction is right exceeds one half. With more than 128 classes the matrix is sparse.
        """
        return to_shares(self._confident_pairs(), 1e-3)

    def pairs(self) -> Tensor:
        """Return the counts of rows by predicted class and given label, sparse if above 128."""
        return self._pairs.counts()

    def predicted(self) -> Tensor:
        """Return the share of each class among the predictions."""
        counts = row_sums(self.pairs())
        return counts / counts.sum()

    def without(self, faster: Tracker) -> Tracker:
        """Return a tracker of the older rows: these less those of a tracker that fades faster."""
        older = Tracker.__new__(Tracker)  # with many classes, zeros to be replaced take time
        older.classes, older.half_life = self.classes, self.half_life
        older._rows = (self._rows - faster._rows).clamp_min_(0)
        agreeing = self._agreeing - faster._agreeing
        older._agreeing = torch.minimum(agreeing, older._rows, out=agreeing).clamp_min_(0)
        older._pairs = self._pairs.minus(faster._pairs)
        older._squares = self._squares  # slightly too many, so that bands are slightly too wide
        return older

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts."""
        return super().state_dict() | self._pairs.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._pairs.load_state_dict(state)

    def _confident_pairs(self) -> Tensor:
        """Return counts by predicted class and given label, weighted by accuracy above one half."""
        return self._pairs.counts((2 * self._right() - 1).clamp_min(0))

    def _most_overlap(self) -> int:
        """Return the highest overlap to try: mistakes concentrate no more than wrong labels do.

        The bound is the probability that two wrong labels of a class are the same.
        """
        wrong = off_diagonal(self._confident_pairs())
        each = row_sums(wrong)
        pairs = (each * (each - 1)).clamp_min(0).sum()
        if self.classes == 2 or not pairs:
            return 0
        same = (cells(wrong) * (cells(wrong) - 1)).clamp_min(0).sum() / pairs
        steps = (OVERLAPS - 1) * (1 + same.log() / math.log(self.classes - 1))
        return int(steps.clamp(0, OVERLAPS - 1))

    def _misfit(self, likelihood: Tensor, overlap: int = 0) -> float:
        """Return the mean squared standardised residual of the bins; 1 where the fit is perfect."""
        ratio, temperature = divmod(int(likelihood.argmax()), len(TEMPERATURES))
        agree = agreement(self.classes, overlap).probability[ratio, temperature]
        rows, agreeing = self._rows.cpu().sum(dim=0), self._agreeing.cpu().sum(dim=0)
        variance = self._rows_per_weight * rows * agree * (1 - agree)
        residuals = (self._rows_per_weight * (agreeing - rows * agree)).square() / variance
        counted = variance > LEAST_VARIANCE
        return residuals[counted].sum().item() / max(1, int(counted.sum()) - 2)

    def _right(self) -> Tensor:
        """Return the accuracy of the predictions in each bin."""
        if not self._rows.sum():
            return torch.full((BINS,), torch.nan, dtype=torch.float64)
        best = self.likelihood().max(dim=0).values.argmax()
        return accuracy_of(TEMPERATURES[best], self.classes)
