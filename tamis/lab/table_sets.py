"""Tables to compare on: those that scikit-learn and River bring along, and made ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tamis.lab.made_tables import MadeTable, make_table

SKLEARN = ("iris", "wine", "breast_cancer", "digits")
RIVER = ("Phishing", "ImageSegments", "Bananas", "Shuttle")
MADE = {150: (2, 1), 600: (3, 2), 2500: (2, 3), 10_000: (4, 4), 100_000: (3, 5)}
"""Classes and seed of the made tables, by their rows."""


def from_sklearn(name: str) -> MadeTable:
    """Return a table of scikit-learn."""
    import sklearn.datasets

    found = getattr(sklearn.datasets, f"load_{name}")()
    return as_table([str(name) for name in found.feature_names], found.data, found.target)


def from_river(name: str) -> MadeTable:
    """Return a table of River."""
    from river import datasets

    rows = list(getattr(datasets, name)())
    names = list(rows[0][0])
    values = np.array([[float(row[key]) for key in names] for row, _ in rows])
    labels = np.array([str(label) for _, label in rows])
    return as_table(names, values, np.unique(labels, return_inverse=True)[1])


def as_table(
    names: list[str], values: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]
) -> MadeTable:
    """Return numbers as columns of text."""
    columns = {name: [repr(float(cell)) for cell in values[:, at]] for at, name in enumerate(names)}
    return MadeTable(columns, labels)


TABLES: dict[str, Callable[[], MadeTable]] = {
    **{name.replace("_", " "): partial(from_sklearn, name) for name in SKLEARN},
    **{name.lower(): partial(from_river, name) for name in RIVER},
    **{f"made {rows:,}": partial(make_table, rows, *how) for rows, how in MADE.items()},
}
