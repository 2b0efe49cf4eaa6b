"""The clean ratio of a stream, tracked: how many labels are right, of which class, with bands.

It needs what a stream gives for free: predictions made before anything was learned from a row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

BINS = 32
"""Bins of confidence, even in its logit."""
SUREST = 16.0
"""Logit of confidence beyond which all is one bin."""
RATIOS = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
SLACKS = torch.logspace(-1.5, 1.0, 36, dtype=torch.float64)
BAND = 1.353
"""Half of the 0.9 quantile of chi squared: what a profile likelihood may fall by in a 90% band."""


class Estimate(NamedTuple):
    """A clean ratio, and the band that holds it nine times in ten if the model is as it seems."""

    value: float
    low: float
    high: float


class Tracker:
    """Follows the clean ratio of a stream by how often labels agree with beliefs held before.

    A label agrees with the model's first choice where it is right and so is the model, or where
    both are wrong alike. How often the model is right is not known, but it is more often so where
    it is surer: among the surest rows nearly every disagreement is a wrong label. So two numbers
    are fitted to the agreement at every level of confidence: the clean ratio, and how far beliefs
    are over- or underconfident.

    Rows fade: after `half_life` rows a row weighs half. Memory is some numbers for each class and
    bin, however long the stream. The band knows of chance alone; a model that is sure and wrong
    is beyond it.

    >>> tracker = Tracker(classes=2)
    >>> beliefs, labels = torch.tensor([[0.99, 0.01]]).repeat(1000, 1), torch.zeros(1000).long()
    >>> labels[:300] = 1
    >>> tracker.watch(beliefs, labels)
    >>> round(tracker.estimate().value, 1)
    0.7
    """

    def __init__(self, classes: int, half_life: float = 1000.0) -> None:
        if classes < 2:
            raise ValueError(f"A label is one of at least 2 classes, got {classes}.")
        if half_life <= 0:
            raise ValueError(f"A half-life is a number of rows above 0, got {half_life}.")
        self.classes = classes
        self.half_life = half_life
        # For every given label and bin of confidence: rows, and rows that agree.
        self._rows = torch.zeros(classes, BINS, dtype=torch.float64)
        self._agreeing = torch.zeros(classes, BINS, dtype=torch.float64)
        # First choice by given label, for the confusion; squared weights, for the band.
        self._pairs = torch.zeros(classes, classes, BINS, dtype=torch.float64)
        self._squares = 0.0

    def watch(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in rows as the model saw them before it learned from them."""
        if not len(labels):
            return
        device = labels.device  # stay there: nobody waits for the numbers yet
        self._rows, self._agreeing = self._rows.to(device), self._agreeing.to(device)
        self._pairs = self._pairs.to(device)
        fade = 0.5 ** (len(labels) / self.half_life)
        for tally in (self._rows, self._agreeing, self._pairs):
            tally *= fade
        self._squares = self._squares * fade**2 + len(labels)
        sure, choice = probabilities.detach().double().max(dim=1)
        known = (sure.isfinite() & (labels >= 0) & (labels < self.classes)).double()
        bins, labels = bin_of(sure, self.classes), labels.clamp(0, self.classes - 1)
        agreeing = known * (choice == labels)
        self._rows.index_put_((labels, bins), known, accumulate=True)
        self._agreeing.index_put_((labels, bins), agreeing, accumulate=True)
        self._pairs.index_put_((choice, labels, bins), known, accumulate=True)

    def estimate(self) -> Estimate:
        """Give the clean ratio with its 90% band; all is open where nothing was seen."""
        if not self._rows.sum():
            return Estimate(0.5, 0.0, 1.0)
        likelihood = self._likelihood()
        profile = likelihood.max(dim=1).values
        inside = RATIOS[profile >= profile.max() - BAND]
        return Estimate(RATIOS[profile.argmax()].item(), inside.min().item(), inside.max().item())

    def by_class(self) -> Tensor:
        """Share of right labels among those given, for every class; nan where none was seen."""
        right, rows = self._right(), self._rows.cpu()
        chance = (1 - right) / (self.classes - 1)
        expected, by_chance = (rows * right).sum(dim=1), (rows * chance).sum(dim=1)
        found = self._agreeing.cpu().sum(dim=1)
        return ((found - by_chance) / (expected - by_chance)).clamp(0, 1)

    def confusion(self) -> Tensor:
        """Share of each given label among rows of a class, as the surest rows tell.

        Row is the right class, column the given one. A row counts by how likely its first choice
        is right, beyond even odds.
        """
        trust = (2 * self._right() - 1).clamp_min(0)
        counts = (self._pairs.cpu() * trust).sum(dim=2) + 1e-3 * torch.eye(self.classes)
        return counts / counts.sum(dim=1, keepdim=True)

    def state(self) -> dict[str, Tensor]:
        """Return all that is remembered."""
        return {
            "rows": self._rows,
            "agreeing": self._agreeing,
            "pairs": self._pairs,
            "squares": torch.tensor(self._squares, dtype=torch.float64),
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Take up what `state` gave."""
        self._rows, self._agreeing = state["rows"].clone(), state["agreeing"].clone()
        self._pairs, self._squares = state["pairs"].clone(), state["squares"].item()

    def _likelihood(self) -> Tensor:
        """Log likelihood of the agreement at every ratio and slack, (ratios, slacks)."""
        rows, agreeing = self._rows.cpu().sum(dim=0), self._agreeing.cpu().sum(dim=0)
        # Fading weights carry the information of more rows than their sum.
        informed = rows.sum() / max(self._squares, 1e-9)
        right = accuracy_of(SLACKS[:, None], self.classes)
        chance = (1 - right) / (self.classes - 1)
        agree = RATIOS[:, None, None] * right + (1 - RATIOS[:, None, None]) * chance
        agree = agree.clamp(1e-6, 1 - 1e-6)
        each = agreeing * agree.log() + (rows - agreeing) * (1 - agree).log()
        # Beliefs are about as sure as they should be, until the rows say otherwise.
        return informed * each.sum(dim=2) - SLACKS.log().square() / 4

    def _right(self) -> Tensor:
        """Share of first choices that are right, for every bin."""
        if not self._rows.sum():
            return torch.full((BINS,), torch.nan, dtype=torch.float64)
        best = self._likelihood().max(dim=0).values.argmax()
        return accuracy_of(SLACKS[best], self.classes)


def bin_of(sure: Tensor, classes: int) -> Tensor:
    """Number the bin of a confidence: its odds over those of pure chance, by their logarithm."""
    sure = sure.nan_to_num(0).clamp(1 / classes, 1 - 1e-7)
    lead = (sure / (1 - sure)).log() + math.log(classes - 1)
    return (lead / SUREST * BINS).long().clamp(0, BINS - 1)


def accuracy_of(slack: Tensor, classes: int) -> Tensor:
    """How often a first choice is right in every bin, if beliefs are too sure by this factor."""
    middle = (torch.arange(BINS, dtype=torch.float64) + 0.5) / BINS * SUREST
    lead = middle / slack - math.log(classes - 1)
    return lead.sigmoid()
