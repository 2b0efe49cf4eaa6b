"""The running clean ratio of a stream, overall and per class, with confidence bands.

It needs only what a stream provides anyway: predictions made before a row is trained on.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

BINS = 32
"""Bins of confidence, of equal width in the logit."""
HIGHEST_LOGIT = 16.0
"""Logit of confidence beyond which all rows share the last bin."""
RATIOS = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
TEMPERATURES = torch.logspace(-1.5, 1.0, 36, dtype=torch.float64)
NEGATIVE_LOG_PRIOR = TEMPERATURES.log().square() / 4
"""Negative log prior over temperatures; favours 1, a calibrated model."""
BAND = 1.353
"""Half of the 0.9 quantile of chi squared: the fall of the profile likelihood within a 90% band."""
OVERLAPS = 5
"""Steps of the probability that a wrong label and a wrong prediction agree, from 1 / (C - 1) to 1,
even in its logarithm."""
LEAST_VARIANCE = 0.5
"""Variance of the agreements of a bin, below which the bin is left out of the misfit."""


class Agreement(NamedTuple):
    """Probability that a label agrees with the prediction, its logarithm and its complement's."""

    probability: Tensor
    log_agree: Tensor
    log_disagree: Tensor


class Observed(NamedTuple):
    """Rows as a tracker counts them.

    `known` is the weight of each row, 0 where it cannot be counted, and `agreeing` that weight
    where label and prediction agree. Rows counted before age by `total` rows.
    """

    known: Tensor
    total: Tensor
    agreeing: Tensor
    predicted: Tensor
    labels: Tensor
    bins: Tensor


class Estimate(NamedTuple):
    """A clean ratio with its 90% confidence band."""

    value: float
    low: float
    high: float


class Tracker:
    """Estimates the clean ratio of a stream from how often labels agree with predictions.

    A label agrees with the model's prediction where both are right, or where both are wrong in the
    same way. The accuracy of the model is unknown, but it rises with confidence: among the most
    confident rows nearly every disagreement is a wrong label. So two numbers are fitted to the
    agreement at every level of confidence: the clean ratio, and a temperature that calibrates the
    model. Where the most confident rows show that wrong labels concentrate in few classes, the
    model's mistakes may concentrate there too, and by how much is a third number.

    After `half_life` more rows a row weighs half. Memory is a few numbers for each class and bin,
    however long the stream. The band accounts for sampling error and for the misfit of the two
    numbers, not for a model that is confident and wrong.

    >>> tracker = Tracker(classes=2)
    >>> probabilities = torch.tensor([[0.99, 0.01]]).repeat(1000, 1)
    >>> labels = torch.zeros(1000).long()
    >>> labels[:300] = 1
    >>> tracker.update(probabilities, labels)
    >>> round(tracker.estimate().value, 1)
    0.7
    """

    def __init__(self, classes: int, half_life: float = 1000.0) -> None:
        if classes < 2:
            raise ValueError(f"A tracker needs at least 2 classes, got {classes}.")
        if half_life <= 0:
            raise ValueError(f"The half-life must be above 0 rows, got {half_life}.")
        self.classes = classes
        self.half_life = half_life
        # By given label and bin of confidence: rows, and rows whose label agrees.
        self._rows = torch.zeros(classes, BINS, dtype=torch.float64)
        self._agreeing = torch.zeros(classes, BINS, dtype=torch.float64)
        # By predicted class, given label and bin, for the confusion; squared weights, for the band.
        self._pairs = torch.zeros(classes, classes, BINS, dtype=torch.float64)
        self._squares = torch.zeros((), dtype=torch.float64)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Count rows, with the predictions that the model made before it was trained on them."""
        if len(labels):
            self.count(observe(probabilities, labels, self.classes))

    def count(self, rows: Observed) -> None:
        """Count rows that were observed before, as where two trackers share them."""
        device = rows.labels.device  # stay on it: nothing waits for the counts yet
        self._rows, self._agreeing = self._rows.to(device), self._agreeing.to(device)
        self._pairs = self._pairs.to(device)
        self._squares = self._squares.to(device)
        fade = 0.5 ** (rows.total / self.half_life)
        for tally in (self._rows, self._agreeing, self._pairs):
            tally *= fade
        self._squares = self._squares * fade**2 + rows.known.square().sum()
        place = (rows.labels, rows.bins)
        self._rows.index_put_(place, rows.known, accumulate=True)
        self._agreeing.index_put_(place, rows.agreeing, accumulate=True)
        self._pairs.index_put_((rows.predicted, *place), rows.known, accumulate=True)

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
            paired = min(moved, self._pairs[predicted, old, at].item())
            self._rows[old, at] -= moved
            self._rows[new, at] += moved
            self._agreeing[old, at] -= agreed
            self._agreeing[new, at] += moved * (predicted == new)
            self._pairs[predicted, old, at] -= paired
            self._pairs[predicted, new, at] += moved

    def estimate(self) -> Estimate:
        """Return the clean ratio with its 90% band; [0, 1] before the first row."""
        if not self._rows.sum():
            return Estimate(0.5, 0.0, 1.0)
        fits = [self.likelihood(overlap) for overlap in range(1 + self._most_overlap())]
        best = max(range(len(fits)), key=lambda overlap: fits[overlap].max().item())
        profile = torch.stack(fits).amax(dim=(0, 2))
        inside = RATIOS[profile >= profile.max() - BAND * (1 + self._misfit(fits[best], best))]
        return Estimate(RATIOS[profile.argmax()].item(), inside.min().item(), inside.max().item())

    def fit(self, most: float = math.inf) -> tuple[float, float]:
        """Return the posterior means of the clean ratio and of the temperature.

        Rows that recur carry no more information than `most` distinct ones.
        """
        if not self._rows.sum():
            return 0.5, 1.0
        evidence = min(1.0, most / self.weight()) * (self.likelihood() + NEGATIVE_LOG_PRIOR)
        posterior = (evidence - NEGATIVE_LOG_PRIOR).flatten().softmax(dim=0)
        posterior = posterior.reshape(len(RATIOS), len(TEMPERATURES))
        temperature = (posterior.sum(dim=0) @ TEMPERATURES.log()).exp()
        return (posterior.sum(dim=1) @ RATIOS).item(), temperature.item()

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
        prediction is right exceeds one half.
        """
        counts = self._confident_pairs() + 1e-3 * torch.eye(self.classes)
        return counts / counts.sum(dim=1, keepdim=True)

    def weight(self) -> float:
        """Return the effective number of rows (Kish): as many unfaded ones inform as much."""
        return self._rows_per_weight * self._rows.sum().item()

    def agreement(self) -> float:
        """Return the share of labels that agree with the prediction."""
        return (self._agreeing.sum() / self._rows.sum()).item()

    def pairs(self) -> Tensor:
        """Return the counts of rows by predicted class and given label."""
        return self._pairs.sum(dim=2).cpu()

    def predicted(self) -> Tensor:
        """Return the share of each class among the predictions."""
        counts = self.pairs().sum(dim=1)
        return counts / counts.sum()

    def confidence(self) -> Tensor:
        """Return the share of rows in each bin of confidence."""
        counts = self._rows.sum(dim=0).cpu()
        return counts / counts.sum()

    def likelihood(self, overlap: int = 0) -> Tensor:
        """Return log likelihood plus log prior, (ratios, temperatures)."""
        rows, agreeing = self._rows.cpu().sum(dim=0), self._agreeing.cpu().sum(dim=0)
        agree = agreement(self.classes, overlap)
        each = agree.log_agree @ agreeing + agree.log_disagree @ (rows - agreeing)
        return self._rows_per_weight * each - NEGATIVE_LOG_PRIOR

    def without(self, faster: Tracker) -> Tracker:
        """Return a tracker of the older rows: these less those of a tracker that fades faster."""
        older = Tracker(self.classes, self.half_life)
        older._rows = (self._rows - faster._rows).clamp_min(0)
        older._agreeing = torch.minimum(self._agreeing - faster._agreeing, older._rows)
        older._agreeing = older._agreeing.clamp_min(0)
        older._pairs = (self._pairs - faster._pairs).clamp_min(0)
        older._squares = self._squares  # slightly too many, so that bands are slightly too wide
        return older

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts."""
        return {
            "rows": self._rows.clone(),
            "agreeing": self._agreeing.clone(),
            "pairs": self._pairs.clone(),
            "squares": self._squares.clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._rows, self._agreeing = state["rows"].clone(), state["agreeing"].clone()
        self._pairs, self._squares = state["pairs"].clone(), state["squares"].clone()

    @property
    def _rows_per_weight(self) -> float:
        """Effective rows for each unit of weight: above 1 where weights fade."""
        return (self._rows.sum() / self._squares.clamp_min(1e-9)).item()

    def _confident_pairs(self) -> Tensor:
        """Return counts by predicted class and given label, weighted by accuracy above one half."""
        weights = (2 * self._right() - 1).clamp_min(0)
        return (self._pairs.cpu() * weights).sum(dim=2)

    def _most_overlap(self) -> int:
        """Return the highest overlap to try: mistakes concentrate no more than wrong labels do.

        The bound is the probability that two wrong labels of a class are the same.
        """
        wrong = self._confident_pairs().fill_diagonal_(0)
        each = wrong.sum(dim=1)
        pairs = (each * (each - 1)).clamp_min(0).sum()
        if self.classes == 2 or not pairs:
            return 0
        same = (wrong * (wrong - 1)).clamp_min(0).sum() / pairs
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


def observe(probabilities: Tensor, labels: Tensor, classes: int) -> Observed:
    """Return what a tracker counts of rows predicted before the model was trained on them."""
    confidence, predicted = probabilities.detach().double().max(dim=1)
    known = (confidence.isfinite() & (labels >= 0) & (labels < classes)).double()
    labels = labels.clamp(0, classes - 1)
    agreeing = known * (predicted == labels)
    return Observed(known, known.sum(), agreeing, predicted, labels, bin_of(confidence, classes))


def reweight(rows: Observed, weights: Tensor, age: Tensor) -> Observed:
    """Return the rows with these weights; rows counted before age by `age` rows."""
    return rows._replace(known=rows.known * weights, total=age, agreeing=rows.agreeing * weights)


def bin_of(confidence: Tensor, classes: int) -> Tensor:
    """Return the bin of each confidence, by its log odds over those of a uniform guess."""
    confidence = confidence.nan_to_num(0).clamp(1 / classes, 1 - 1e-7)
    logit = (confidence / (1 - confidence)).log() + math.log(classes - 1)
    return (logit / HIGHEST_LOGIT * BINS).long().clamp(0, BINS - 1)


def accuracy_of(temperature: Tensor, classes: int) -> Tensor:
    """Return the accuracy in each bin of a model that this temperature calibrates."""
    middle = (torch.arange(BINS, dtype=torch.float64) + 0.5) / BINS * HIGHEST_LOGIT
    logit = middle / temperature - math.log(classes - 1)
    return logit.sigmoid()


@lru_cache(maxsize=8)
def agreement(classes: int, overlap: int = 0) -> Agreement:
    """Return the probability of agreement at every clean ratio, temperature and bin."""
    right = accuracy_of(TEMPERATURES[:, None], classes)
    same_mistake = (classes - 1) ** (overlap / (OVERLAPS - 1) - 1)
    ratios = RATIOS[:, None, None]
    agree = ratios * right + (1 - ratios) * (1 - right) * same_mistake
    agree = agree.clamp(1e-6, 1 - 1e-6)
    return Agreement(agree, agree.log(), (1 - agree).log())
