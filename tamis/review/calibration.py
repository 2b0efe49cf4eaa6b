"""Evidence against labels turned into calibrated probabilities that they are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.noise.agreement import (
    RATIOS,
    TEMPERATURES,
    AgreementFit,
    accuracy_of,
    bin_of,
    observed,
)
from tamis.review.judge import Prediction

LEAST_ROWS = 100
"""Rows held below which scores are not calibrated: too few to fit anything to."""
PRIOR_ROWS = 30.0
"""Rows that the uncalibrated share of wrong labels counts for in the fit of the clean ratio."""
WEIGHTS = torch.logspace(-2, 0.18, 45, dtype=torch.float64)
"""Weights of the evidence, from 0.01 to 1.5: it may be worth next to nothing, but hardly more."""
NEGATIVE_LOG_PRIOR = 2 * WEIGHTS.log().square()
"""Negative log prior over weights; favours 1, the evidence as it is."""
HALVINGS = 60
"""Halvings of the interval in which an offset is looked for."""
SUSPECT = 0.5
"""Score above which a label is more likely wrong than right."""


@dataclass(frozen=True)
class Calibration:
    """The probability that a label is wrong: sigmoid(weight * compressed lead + offset).

    The lead is the log odds of the likeliest other class against the label. Both numbers are
    fitted (`fit_calibration`), so that scores have the mean 1 - `clean_ratio` on the rows held. The
    order of the rows is that of their leads. Labels with a score above `threshold` are suspects.
    """

    weight: float
    offset: float
    clean_ratio: float
    threshold: float = SUSPECT

    def scores(self, leads: Tensor) -> Tensor:
        """Return the probability that each label is wrong."""
        return (self.weight * compressed(leads) + self.offset).sigmoid()

    @property
    def least_lead(self) -> float:
        """The lead at which a score equals the threshold."""
        logit = math.log(self.threshold / (1 - self.threshold))
        return 2 * math.sinh(min(max((logit - self.offset) / self.weight / 2, -700), 700))


class Judgement(NamedTuple):
    """A prediction of labels: where they agree with it, and how accurate it is for each row.

    `clean_ratio` is the one under which both fit together best.
    """

    agrees: Tensor
    accuracy: Tensor
    clean_ratio: float


def compressed(leads: Tensor) -> Tensor:
    """Return leads, large ones by their logarithm: no evidence is worth ten thousand to one.

    >>> compressed(torch.tensor([0.0, 0.1, 1.0, 30.0]))
    tensor([0.0000, 0.1000, 0.9624, 6.8046])
    """
    return 2 * (leads / 2).asinh()


def judge(prediction: Prediction, labels: Tensor, classes: int, wrong: float) -> Judgement:
    """Fit the clean ratio, and the accuracy of predictions made without the labels.

    As in a `Tracker`, the accuracy follows from the confidence by a temperature. `wrong` is a
    first guess at the share of wrong labels.
    """
    confidence, predicted = prediction.confidence, prediction.classes
    fit = AgreementFit(classes, math.inf)
    fit.count(observed(confidence, predicted, labels, classes))
    prior = PRIOR_ROWS * ((1 - wrong) * RATIOS.log() + wrong * (1 - RATIOS).log())
    posterior = (fit.likelihood() + prior[:, None]).flatten().softmax(dim=0)
    posterior = posterior.reshape(len(RATIOS), len(TEMPERATURES))
    temperature = (posterior.sum(dim=0) @ TEMPERATURES.log()).exp()
    accuracy = accuracy_of(temperature, classes)[bin_of(confidence, classes)]
    return Judgement(predicted == labels, accuracy, (posterior.sum(dim=1) @ RATIOS).item())


def fit_calibration(
    leads: Tensor, clean_ratio: float, judgements: Sequence[Judgement], classes: int
) -> Calibration:
    """Return the calibration that explains best with which labels the judgements agree.

    A judgement of accuracy a agrees with a right label with probability a, with a wrong one with
    probability (1 - a) / (classes - 1). At every weight the offset is the one that gives the
    scores the mean 1 - `clean_ratio`; the weight is the posterior mean of its logarithm.
    """
    lead = compressed(leads)
    offsets = offsets_for(lead, WEIGHTS, 1 - clean_ratio)
    wrong = (WEIGHTS[:, None] * lead + offsets[:, None]).sigmoid()
    likelihood = -NEGATIVE_LOG_PRIOR
    for agrees, accuracy, _ in judgements:
        agree = accuracy + wrong * ((1 - accuracy) / (classes - 1) - accuracy)
        each = torch.where(agrees, agree, 1 - agree).clamp_min(1e-9).log()
        likelihood = likelihood + each.sum(dim=1) / len(judgements)
    weight = (likelihood.softmax(dim=0) @ WEIGHTS.log()).exp()
    offset = offsets_for(lead, weight[None], 1 - clean_ratio)
    threshold = threshold_of((weight * lead + offset).sigmoid())
    return Calibration(weight.item(), offset.item(), clean_ratio, threshold)


def offsets_for(lead: Tensor, weights: Tensor, mean: float) -> Tensor:
    """Return, for each weight, the offset at which the scores have this mean."""
    high = weights * lead.abs().max() + abs(math.log(mean / (1 - mean))) + 1
    low = -high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = (weights[:, None] * lead + middle[:, None]).sigmoid().mean(dim=1) < mean
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def threshold_of(scores: Tensor) -> float:
    """Return the score above which a label is suspect.

    All that are more likely wrong than right are. Where these are fewer than the sum of the
    scores, the number of wrong labels to be expected, the worst of the others are as well, as long
    as they are worse than the average.
    """
    wrong = scores.mean().item()
    ranked = scores.sort(descending=True).values
    last = min(round(wrong * len(scores)), len(scores) - 1)
    return min(SUSPECT, max(ranked[last].item(), wrong))
