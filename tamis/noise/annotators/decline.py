"""The test for an annotator who has gone bad: his newest labels against those before them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.noise.annotators.votes import Array

LEVEL = 6.0
"""Standard deviations of a decline: the tail of a normal variate is 1e-9, and there are some
millions of annotators times splits in a large table."""
LEAST_FALL = 0.1
"""Fall of the agreement below which nobody is named, however many labels show it."""
WINDOW = 512
"""Newest labels that are looked at, and the most that a decline is found within."""
STEP = 4
"""Labels between two places at which they are split."""


class Decline(NamedTuple):
    """An annotator who has gone bad: from which of his labels on, and how many he had given.

    `since` and `named` count his labels from 0; `position` is the number of that label among all.
    `before` and `after` are shares of labels that agree with the consensus of others.
    """

    annotator: int
    since: int
    named: int
    position: int
    before: float
    after: float


class Split(NamedTuple):
    """For each annotator, how many of his newest labels differ most from those before, and how."""

    level: Array
    newest: Array
    before: Array
    after: Array


def split(agrees: Array, expected: Array, counted: Array) -> Split:
    """Return the best split of each annotator's labels, (annotators, labels), newest first.

    `agrees` is whether a label is the consensus of the others, `expected` the probability of that
    under the annotator's own confusion, and `counted` whether there is a consensus. Likelihood
    ratio of two binomial variates whose odds are those expected, times one factor before and
    another one after; one-sided; in standard deviations.
    """
    right, wrong = counted & agrees, counted & ~agrees
    places = slice(STEP - 1, None, STEP)
    sums = [
        np.cumsum(each, axis=1, dtype=np.float64)
        for each in (right, wrong, counted * expected, counted * (1 - expected))
    ]
    totals = [each[:, -1:] for each in sums]
    parts = [each[:, places] for each in sums]
    ratio = sum(
        binomial(found, total, part / np.maximum(of, 1e-12))
        for found, total, part, of in zip(parts[:2], totals[:2], parts[2:], totals[2:], strict=True)
    )
    newer = parts[0] + parts[1]
    older = totals[0] + totals[1] - newer
    after = parts[0] / np.maximum(newer, 1)
    before = (totals[0] - parts[0]) / np.maximum(older, 1)
    fewer = parts[1] * totals[3] > totals[1] * parts[3]
    falls = fewer & (before - after >= LEAST_FALL) & (older > 0)
    ratio = np.where(falls, ratio, 0.0)
    best = ratio.argmax(axis=1)
    at = np.arange(len(ratio)), best
    level = np.sqrt(2 * np.maximum(ratio[at], 0))
    return Split(level, STEP * (best + 1), before[at], after[at])


def binomial(found: Array, total: Array, share: Array) -> Array:
    """Return the log likelihood ratio of `found` of `total` against an expected share."""
    share = share.clip(1e-9, 1 - 1e-9)
    rest = total - found
    with np.errstate(divide="ignore", invalid="ignore"):
        part = found * np.log(found / (total * share))
        other = rest * np.log(rest / (total * (1 - share)))
    ratio: Array = np.where(found > 0, part, 0) + np.where(rest > 0, other, 0)
    return ratio
