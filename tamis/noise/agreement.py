"""How often labels agree with predictions, and the clean ratio fitted to it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tamis.model_view.passes import largest

BINS = 32
"""Bins of confidence, of equal width in the logit."""
HIGHEST_LOGIT = 16.0
"""Logit of confidence beyond which all rows share the last bin."""
RATIOS = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
TEMPERATURES = torch.logspace(-1.5, 1.0, 36, dtype=torch.float64)
NEGATIVE_LOG_PRIOR = TEMPERATURES.log().square() / 4
"""Negative log prior over temperatures; favours 1, a calibrated model."""
OVERLAPS = 5
"""Steps of the probability that a wrong label and a wrong prediction agree, from 1 / (C - 1) to 1,
even in its logarithm."""


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


class AgreementFit:
    """Counts how often labels agree with predictions, and fits clean ratio and temperature to it.

    Two numbers for each class and bin of confidence. After `half_life` more rows a row weighs half.
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
        self._squares = torch.zeros((), dtype=torch.float64)  # of the weights, for the band

    def count(self, rows: Observed) -> None:
        """Count rows that were observed before, as where two trackers share them."""
        device = rows.labels.device  # stay on it: nothing waits for the counts yet
        self._rows, self._agreeing = self._rows.to(device), self._agreeing.to(device)
        self._squares = self._squares.to(device)
        fade = self._fade(rows)
        for tally in (self._rows, self._agreeing):
            tally *= fade
        self._squares = self._squares * fade**2 + rows.known.square().sum()
        place = (rows.labels, rows.bins)
        self._rows.index_put_(place, rows.known, accumulate=True)
        self._agreeing.index_put_(place, rows.agreeing, accumulate=True)

    def grow(self, classes: int) -> None:
        """Count by so many classes; rows keep their odds over those of a uniform guess."""
        if classes <= self.classes:
            return
        rise = rise_in_bins(self.classes, classes)
        self._rows, self._agreeing = (
            functional.pad(move_bins(tally, rise), (0, 0, 0, classes - self.classes))
            for tally in (self._rows, self._agreeing)
        )
        self.classes = classes

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

    def weight(self) -> float:
        """Return the effective number of rows (Kish): as many unfaded ones inform as much."""
        return self._rows_per_weight * self._rows.sum().item()

    def agreement(self) -> float:
        """Return the share of labels that agree with the prediction."""
        return (self._agreeing.sum() / self._rows.sum()).item()

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

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts."""
        return {
            "rows": self._rows.clone(),
            "agreeing": self._agreeing.clone(),
            "squares": self._squares.clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._rows, self._agreeing = state["rows"].clone(), state["agreeing"].clone()
        self._squares = state["squares"].clone()

    def _fade(self, rows: Observed) -> Tensor:
        """Return the weight left to rows counted before these."""
        return 0.5 ** (rows.total / self.half_life)

    @property
    def _rows_per_weight(self) -> float:
        """Effective rows for each unit of weight: above 1 where weights fade."""
        return (self._rows.sum() / self._squares.clamp_min(1e-9)).item()


def observe(probabilities: Tensor, labels: Tensor, classes: int) -> Observed:
    """Return what a tracker counts of rows predicted before the model was trained on them."""
    highest, predicted = largest(probabilities.detach())
    return observed(highest.double(), predicted, labels, classes)


def observed(confidence: Tensor, predicted: Tensor, labels: Tensor, classes: int) -> Observed:
    """Return what a tracker counts of rows, by the likeliest class of each and its probability."""
    known = (confidence.isfinite() & (labels >= 0) & (labels < classes)).double()
    labels = labels.clamp(0, classes - 1)
    agreeing = known * (predicted == labels)
    return Observed(known, known.sum(), agreeing, predicted, labels, bin_of(confidence, classes))


def reweight(rows: Observed, weights: Tensor, age: Tensor) -> Observed:
    """Return the rows with these weights; rows counted before age by `age` rows."""
    return rows._replace(known=rows.known * weights, total=age, agreeing=rows.agreeing * weights)


def bin_of(confidence: Tensor, classes: int) -> Tensor:
    """Return the bin of each confidence, by its log odds over those of a uniform guess."""
    if confidence.device.type == "cpu" and confidence.dtype == torch.float64:
        return torch.bucketize(confidence.nan_to_num(0), lowest_of_bins(classes), right=True)
    confidence = confidence.nan_to_num(0).clamp(1 / classes, 1 - 1e-7)
    logit = (confidence / (1 - confidence)).log() + math.log(classes - 1)
    return (logit / HIGHEST_LOGIT * BINS).long().clamp(0, BINS - 1)


@lru_cache(maxsize=8)
def lowest_of_bins(classes: int) -> Tensor:
    """Return the lowest confidence in each bin but the first."""
    logit = torch.arange(1, BINS, dtype=torch.float64) / BINS * HIGHEST_LOGIT
    return (logit - math.log(classes - 1)).sigmoid().clamp_max(1 - 1e-7)


def rise_in_bins(before: int, after: int) -> float:
    """Return by how many bins a confidence rises where there are more classes."""
    return math.log((after - 1) / (before - 1)) / HIGHEST_LOGIT * BINS


def move_bins(counts: Tensor, rise: float) -> Tensor:
    """Return counts by bin (the last dimension), each shared by the two bins that it rises to."""
    moved = torch.zeros_like(counts)
    for step, share in ((math.floor(rise), 1 - rise % 1), (math.floor(rise) + 1, rise % 1)):
        places = (torch.arange(BINS, device=counts.device) + step).clamp(0, BINS - 1)
        moved.index_add_(-1, places, counts * share)
    return moved


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
