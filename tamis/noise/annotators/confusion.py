"""Confusions of annotators, shrunk to what few labels can determine.

Dawid and Skene estimate a share for each pair of classes: many numbers for few labels.
Here each confusion has a prior: the model of Hovy et al. (MACE, NAACL 2013), in which an annotator
knows the class with a probability, and draws from a distribution of his own otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.noise.annotators.votes import Array

STRENGTH = 32.0
"""Labels of a class that the prior of its row of a confusion weighs."""
KNOWING_STRENGTH = 2.0
"""Labels that the mean over annotators weighs in how often one knows the class."""
GUESSING_STRENGTH = 4.0
"""Labels that the shares of classes weigh in what an annotator draws when he does not know."""
SWEEPS = 8
START = 0.7
"""How often an annotator knows the class, before any label."""


class Confusions(NamedTuple):
    """For each annotator, shares of labels by true class, and how often he knows the class."""

    shares: Array
    knowing: Array


def estimate(counts: Array, classes: Array, knowing: float | Array) -> Confusions:
    """Return the confusions of counts, (annotators, true class, label).

    `classes` are the shares of classes. `knowing` is how often an annotator without labels knows
    the class, the mean over all of them; it may differ from one to the other.
    """
    total = counts.sum(axis=(1, 2))
    given = counts.sum(axis=1)
    agreeing = np.diagonal(counts, axis1=1, axis2=2)
    share = np.full(len(counts), knowing)
    guesses = np.broadcast_to(classes, given.shape)
    for _ in range(SWEEPS):
        known = share[:, None]
        by_knowing = agreeing * known / (known + (1 - known) * guesses)
        sums = by_knowing.sum(axis=1)
        share = (sums + KNOWING_STRENGTH * knowing) / (total + KNOWING_STRENGTH)
        guesses = given - by_knowing + GUESSING_STRENGTH * classes
        guesses = guesses / (total - sums + GUESSING_STRENGTH)[:, None]
    prior = np.repeat(((1 - share)[:, None] * guesses)[:, None, :], counts.shape[1], axis=1)
    diagonal = np.arange(counts.shape[1])
    prior[:, diagonal, diagonal] += share[:, None]
    shares = counts + STRENGTH * prior
    return Confusions(shares / shares.sum(axis=2, keepdims=True), share)


def mean_knowing(knowing: Array, totals: Array) -> float:
    """Return the mean of how often annotators know the class; those with few labels weigh less."""
    weights = totals / (totals + KNOWING_STRENGTH)
    return float((weights @ knowing + START) / (weights.sum() + 1))
