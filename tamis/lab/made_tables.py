"""Made tables of mixed columns: skewed numbers, categories, flags, dates and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

Column = list[str]
FIRST_DAY = date(2022, 1, 1)
DAYS = 1000
MISSING = 0.08
"""Share of the fields that are empty, in columns that may be."""


@dataclass(frozen=True)
class MadeTable:
    """Columns of text as they stand in a file, and the right class of each row."""

    columns: dict[str, Column]
    labels: np.ndarray[Any, Any]


def make_table(rows: int, classes: int, seed: int) -> MadeTable:
    """Return a table whose classes depend on its columns in many ways.

    Scores of the classes add up, in equal shares, what is linear, smooth, a threshold, an effect of
    a category, a season, and an interaction of two columns, so that neither lines nor steps have
    the advantage. A tenth of the variance of a score is nothing that the columns show.
    """
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(6, 6)) * 0.5 + np.eye(6)
    base = rng.normal(size=(rows, 6)) @ mix
    base = (base - base.mean(axis=0)) / base.std(axis=0)
    levels = (4, 12, 40)
    codes = [rng.choice(size, rows, p=rng.dirichlet(np.full(size, 2.0))) for size in levels]
    flag = rng.random(rows) < 0.3
    day = rng.integers(0, DAYS, rows)
    parts = [score(rng, base, codes, levels, flag, day) for _ in range(classes)]
    scores = np.stack(parts, axis=1)
    scores = scores + rng.normal(size=scores.shape) * scores.std(axis=0) / 3
    columns: dict[str, Column] = {
        "income": texts(np.exp(7 + 0.8 * base[:, 0]), 2),
        "age": texts(np.clip(45 + 14 * base[:, 1], 18, 95), 0),
        "balance": texts(1000 * np.sinh(base[:, 2]), 2),
        "ratio": texts(1 / (1 + np.exp(-2 * base[:, 3])), 4),
        "visits": texts(np.floor(np.exp(1 + 0.7 * base[:, 4])), 0),
        "score": texts(base[:, 5], 3),
        "plan": [f"plan {chr(65 + code)}" for code in codes[0]],
        "region": [f"region {code}" for code in codes[1]],
        "shop": [f"s{code:03d}" for code in codes[2]],
        "member": ["yes" if value else "no" for value in flag],
        "since": [str(FIRST_DAY + timedelta(days=int(value))) for value in day],
    }
    for name in ("income", "balance", "visits", "region", "since"):
        for at in np.flatnonzero(rng.random(rows) < MISSING):
            columns[name][at] = ""
    return MadeTable(columns, scores.argmax(axis=1))


def score(
    rng: np.random.Generator,
    base: np.ndarray[Any, Any],
    codes: list[np.ndarray[Any, Any]],
    levels: tuple[int, ...],
    flag: np.ndarray[Any, Any],
    day: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Return the score of one class for each row."""
    one, two, three = rng.choice(base.shape[1], 3, replace=False)
    kinds = [
        base @ rng.normal(size=base.shape[1]),
        np.sin(1.5 * base[:, one] + rng.uniform(0, 6)) + np.tanh(2 * base[:, two]),
        np.sign(base[:, two] - rng.normal() / 2) + np.sign(base[:, three] - rng.normal() / 2),
        sum(rng.normal(size=size)[code] for size, code in zip(levels, codes, strict=True)),
        np.sin(2 * np.pi * (day + rng.uniform(0, 365)) / 365.25),
        base[:, one] * base[:, three] + np.where(flag, base[:, two], -base[:, two]),
    ]
    total: np.ndarray[Any, Any] = np.sum([kind / kind.std() for kind in kinds], axis=0)
    return total


def texts(values: np.ndarray[Any, Any], digits: int) -> Column:
    """Return numbers as text, rounded."""
    return [f"{value:.{digits}f}" for value in values]
