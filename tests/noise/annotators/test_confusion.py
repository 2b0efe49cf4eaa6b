"""Shrunken confusions, redone in loops."""

from __future__ import annotations

import numpy as np

from tamis.noise.annotators.confusion import (
    GUESSING_STRENGTH,
    KNOWING_STRENGTH,
    STRENGTH,
    SWEEPS,
    estimate,
)


def naive(counts: np.ndarray, classes: np.ndarray, knowing: float) -> tuple[np.ndarray, float]:
    """Return the confusion of one annotator."""
    number = len(classes)
    share, guesses = knowing, list(classes)
    for _ in range(SWEEPS):
        known = [counts[c, c] * share / (share + (1 - share) * guesses[c]) for c in range(number)]
        total = counts.sum()
        share = (sum(known) + KNOWING_STRENGTH * knowing) / (total + KNOWING_STRENGTH)
        rest = total - sum(known) + GUESSING_STRENGTH
        guesses = [
            (counts[:, c].sum() - known[c] + GUESSING_STRENGTH * classes[c]) / rest
            for c in range(number)
        ]
    found = np.zeros((number, number))
    for c in range(number):
        for label in range(number):
            prior = share * (c == label) + (1 - share) * guesses[label]
            found[c, label] = counts[c, label] + STRENGTH * prior
        found[c] /= found[c].sum()
    return found, share


def test_it_is_the_loop() -> None:
    rng = np.random.default_rng(0)
    counts, classes = rng.gamma(1, 20, (4, 3, 3)), np.array([0.5, 0.3, 0.2])
    found = estimate(counts, classes, 0.6)
    for annotator in range(4):
        shares, share = naive(counts[annotator], classes, 0.6)
        assert np.allclose(found.shares[annotator], shares)
        assert np.isclose(found.knowing[annotator], share)


def test_few_labels_leave_the_mean_and_many_do_not() -> None:
    none, many = np.zeros((2, 2)), 1e6 * np.array([[0.2, 0.8], [0.9, 0.1]])
    found = estimate(np.stack([none, many]), np.array([0.5, 0.5]), 0.6)
    assert np.allclose(found.shares[0], [[0.8, 0.2], [0.2, 0.8]])
    assert np.allclose(found.shares[1], [[0.2, 0.8], [0.9, 0.1]], atol=1e-3)


def test_one_who_always_gives_one_label_knows_nothing() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0, :, 1] = 40
    assert estimate(counts, np.full(3, 1 / 3), 0.7).knowing[0] < 0.1
