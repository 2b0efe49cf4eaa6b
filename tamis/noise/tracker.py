"""The clean ratio of a stream, tracked: how many labels are right, of which class, with bands.

It needs what a stream gives for free: predictions made before anything was learned from a row.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

BINS = 32
"""Bins of confidence, even in its logit."""
SUREST = 16.0
"""Logit of confidence beyond which all is one bin."""
RATIOS = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
SLACKS = torch.logspace(-1.5, 1.0, 36, dtype=torch.float64)
SHYNESS = SLACKS.log().square() / 4
"""What is held against every slack: beliefs are as sure as they should be, or the rows say no."""
BAND = 1.353
"""Half of the 0.9 quantile of chi squared: what a profile likelihood may fall by in a 90% band."""
OVERLAPS = 5
"""How often a wrong label and a wrong first choice agree: from one in all other classes to always,
in so many even steps of the logarithm."""
LEAST_SPREAD = 0.5
"""Variance of the agreements of a bin, below which it says nothing about the fit."""


class Chances(NamedTuple):
    """Chance that a label agrees, and logarithms of it and of its opposite."""

    yes: Tensor
    log_yes: Tensor
    log_no: Tensor


class Observed(NamedTuple):
    """Rows as a tracker counts them: which can be counted, and how many the others age by; choices,
    labels, bins.
    """

    known: Tensor
    total: Tensor
    agreeing: Tensor
    choices: Tensor
    labels: Tensor
    bins: Tensor


class Estimate(NamedTuple):
    """A clean ratio, and a band that holds it about nine times in ten."""

    value: float
    low: float
    high: float


class Tracker:
    """Follows the clean ratio of a stream by how often labels agree with beliefs held before.

    A label agrees with the model's first choice where it is right and so is the model, or where
    both are wrong alike. How often the model is right is not known, but it is more often so where
    it is surer: among the surest rows nearly every disagreement is a wrong label. So two numbers
    are fitted to the agreement at every level of confidence: the clean ratio, and how far beliefs
    are over- or underconfident. Where wrong labels gather in few classes, as the surest rows tell,
    the model's mistakes may gather there too, and a third number is how much they do.

    Rows fade: after `half_life` rows a row weighs half. Memory is some numbers for each class and
    bin, however long the stream. The band is as wide as chance makes it, and wider the worse the
    two numbers fit. A model that is sure and wrong is beyond it.

    >>> tracker = Tracker(classes=2)
    >>> beliefs, labels = torch.tensor([[0.99, 0.01]]).repeat(1000, 1), torch.zeros(1000).long()
    >>> labels[:300] = 1
    >>> tracker.update(beliefs, labels)
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
        self._squares = torch.zeros((), dtype=torch.float64)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in rows as the model saw them before it learned from them."""
        if len(labels):
            self.count(observe(probabilities, labels, self.classes))

    def count(self, rows: Observed) -> None:
        """Take in rows that were looked at already, as where two trackers see the same."""
        device = rows.labels.device  # stay there: nobody waits for the numbers yet
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
        self._pairs.index_put_((rows.choices, *place), rows.known, accumulate=True)

    def estimate(self) -> Estimate:
        """Give the clean ratio with its 90% band; all is open where nothing was seen."""
        if not self._rows.sum():
            return Estimate(0.5, 0.0, 1.0)
        fits = [self.likelihood(overlap) for overlap in range(1 + self._most_overlap())]
        best = max(range(len(fits)), key=lambda overlap: fits[overlap].max().item())
        profile = torch.stack(fits).amax(dim=(0, 2))
        inside = RATIOS[profile >= profile.max() - BAND * (1 + self._misfit(fits[best], best))]
        return Estimate(RATIOS[profile.argmax()].item(), inside.min().item(), inside.max().item())

    def fit(self, most: float = math.inf) -> tuple[float, float]:
        """Give what to expect of the clean ratio, and of how far beliefs are too sure.

        Rows that come again and again tell no more than `most` different ones.
        """
        if not self._rows.sum():
            return 0.5, 1.0
        told = min(1.0, most / self.weight()) * (self.likelihood() + SHYNESS)
        shares = (told - SHYNESS).flatten().softmax(dim=0).reshape(len(RATIOS), len(SLACKS))
        slack = (shares.sum(dim=0) @ SLACKS.log()).exp()
        return (shares.sum(dim=1) @ RATIOS).item(), slack.item()

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
        counts = self._sure_pairs() + 1e-3 * torch.eye(self.classes)
        return counts / counts.sum(dim=1, keepdim=True)

    def weight(self) -> float:
        """Rows that would tell as much as these do if none had faded."""
        return self._informed * self._rows.sum().item()

    def agreement(self) -> float:
        """Share of labels that are the model's first choice."""
        return (self._agreeing.sum() / self._rows.sum()).item()

    def pairs(self) -> Tensor:
        """Count rows by first choice and given label."""
        return self._pairs.sum(dim=2).cpu()

    def choices(self) -> Tensor:
        """Share of each class among the model's first choices."""
        counts = self.pairs().sum(dim=1)
        return counts / counts.sum()

    def confidence(self) -> Tensor:
        """Share of rows in every bin of confidence."""
        counts = self._rows.sum(dim=0).cpu()
        return counts / counts.sum()

    def likelihood(self, overlap: int = 0) -> Tensor:
        """Log likelihood of the agreement at every ratio and slack, (ratios, slacks)."""
        rows, agreeing = self._rows.cpu().sum(dim=0), self._agreeing.cpu().sum(dim=0)
        agree = chances(self.classes, overlap)
        each = agree.log_yes @ agreeing + agree.log_no @ (rows - agreeing)
        # Beliefs are about as sure as they should be, until the rows say otherwise.
        return self._informed * each - SHYNESS

    def without(self, faster: Tracker) -> Tracker:
        """Take away the rows of a tracker that fades faster, and so leave the older ones."""
        older = Tracker(self.classes, self.half_life)
        older._rows = (self._rows - faster._rows).clamp_min(0)
        older._agreeing = torch.minimum(self._agreeing - faster._agreeing, older._rows)
        older._agreeing = older._agreeing.clamp_min(0)
        older._pairs = (self._pairs - faster._pairs).clamp_min(0)
        older._squares = self._squares  # a little too many, and so a little too careful
        return older

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that is remembered."""
        return {
            "rows": self._rows.clone(),
            "agreeing": self._agreeing.clone(),
            "pairs": self._pairs.clone(),
            "squares": self._squares.clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take up what `state_dict` gave."""
        self._rows, self._agreeing = state["rows"].clone(), state["agreeing"].clone()
        self._pairs, self._squares = state["pairs"].clone(), state["squares"].clone()

    @property
    def _informed(self) -> float:
        """Rows that a weight of 1 stands for: fading weights tell more than their sum."""
        return (self._rows.sum() / self._squares.clamp_min(1e-9)).item()

    def _sure_pairs(self) -> Tensor:
        """Count rows by first choice and given label, each by how sure its first choice is."""
        trust = (2 * self._right() - 1).clamp_min(0)
        return (self._pairs.cpu() * trust).sum(dim=2)

    def _most_overlap(self) -> int:
        """Say how many steps of overlap there may be: mistakes gather where wrong labels do.

        Two wrong labels of a class are the same so often, and no more often are a wrong label and
        a mistake.
        """
        wrong = self._sure_pairs().fill_diagonal_(0)
        each = wrong.sum(dim=1)
        pairs = (each * (each - 1)).clamp_min(0).sum()
        if self.classes == 2 or not pairs:
            return 0
        same = (wrong * (wrong - 1)).clamp_min(0).sum() / pairs
        steps = (OVERLAPS - 1) * (1 + same.log() / math.log(self.classes - 1))
        return int(steps.clamp(0, OVERLAPS - 1))

    def _misfit(self, likelihood: Tensor, overlap: int = 0) -> float:
        """Mean square of how far bins are from the best fit; chance alone makes it 1."""
        ratio, slack = divmod(int(likelihood.argmax()), len(SLACKS))
        agree = chances(self.classes, overlap).yes[ratio, slack]
        rows, agreeing = self._rows.cpu().sum(dim=0), self._agreeing.cpu().sum(dim=0)
        spread = self._informed * rows * agree * (1 - agree)
        off = (self._informed * (agreeing - rows * agree)).square() / spread
        told = spread > LEAST_SPREAD
        return off[told].sum().item() / max(1, int(told.sum()) - 2)

    def _right(self) -> Tensor:
        """Share of first choices that are right, for every bin."""
        if not self._rows.sum():
            return torch.full((BINS,), torch.nan, dtype=torch.float64)
        best = self.likelihood().max(dim=0).values.argmax()
        return accuracy_of(SLACKS[best], self.classes)


def observe(probabilities: Tensor, labels: Tensor, classes: int) -> Observed:
    """Look at rows as the model saw them before it learned from them."""
    sure, choices = probabilities.detach().double().max(dim=1)
    known = (sure.isfinite() & (labels >= 0) & (labels < classes)).double()
    labels = labels.clamp(0, classes - 1)
    agreeing = known * (choices == labels)
    return Observed(known, known.sum(), agreeing, choices, labels, bin_of(sure, classes))


def weigh(rows: Observed, weights: Tensor, age: Tensor) -> Observed:
    """Let rows count by these weights; those before them fade as if so many had come."""
    return rows._replace(known=rows.known * weights, total=age, agreeing=rows.agreeing * weights)


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


@lru_cache(maxsize=8)
def chances(classes: int, overlap: int = 0) -> Chances:
    """How likely a label agrees at every ratio, slack and bin."""
    right = accuracy_of(SLACKS[:, None], classes)
    alike = (classes - 1) ** (overlap / (OVERLAPS - 1) - 1)
    yes = RATIOS[:, None, None] * right + (1 - RATIOS[:, None, None]) * (1 - right) * alike
    yes = yes.clamp(1e-6, 1 - 1e-6)
    return Chances(yes, yes.log(), (1 - yes).log())
