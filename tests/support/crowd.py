"""Simulated annotators, one of whom may go bad half way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Crowd(NamedTuple):
    """True classes of rows, and labels in the order in which they were given."""

    truth: np.ndarray
    rows: np.ndarray
    annotators: np.ndarray
    labels: np.ndarray


def crowd(
    rows: int = 600, annotators: int = 8, classes: int = 3, per_row: int = 4, *,
    accuracy: float = 0.8, spammers: int = 1, turns: bool = False, seed: int = 0,
) -> Crowd:  # fmt: skip
    """Return labels of annotators; the first are spammers, and the last may turn into one."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    who = np.argsort(rng.random((rows, annotators)), axis=1)[:, :per_row].ravel()
    row = np.repeat(np.arange(rows), per_row)
    guesses = rng.random(len(row)) >= accuracy
    guesses |= who < spammers
    if turns:
        guesses |= (who == annotators - 1) & (row >= rows // 2)
    labels = np.where(guesses, rng.integers(0, classes, len(row)), truth[row])
    return Crowd(truth, row, who, labels)
