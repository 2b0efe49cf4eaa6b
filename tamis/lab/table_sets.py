"""Tables to compare on: those that scikit-learn and River bring along, and made ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import one_hot

from tamis.lab.made_tables import MadeTable, make_table
from tamis.sources import Validator, open_table
from tamis.streams import DataSet

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


@cache
def made_table(folder: Path | None = None, rows: int = 24_000, classes: int = 10) -> DataSet:
    """Return a made table as numbers, with as many rows of each class, a fifth of them to test on.

    Numbers are scaled, categories are one-hot.
    """
    table = make_table(rows, classes, seed=6)
    labels = torch.from_numpy(table.labels).long()
    names = [f"class {number}" for number in table.labels]
    schema = open_table(table.columns | {"label": names}, "label", Validator()).schema
    encoded = torch.from_numpy(schema.encode(table.columns))
    count = schema.layout.numbers
    numbers, codes = encoded[:, :count].float(), encoded[:, count:].long()
    numbers = (numbers - numbers.mean(dim=0)) / numbers.std(dim=0).clamp_min(1e-6)
    flags = [one_hot(codes[:, at], size) for at, size in enumerate(schema.layout.categories)]
    inputs = torch.cat([numbers.clamp(-5, 5), *flags], dim=1)
    each = int(torch.bincount(labels).min())
    of_class = [(labels == number).nonzero()[:each, 0] for number in range(classes)]
    train, test = (
        torch.cat(parts)
        for parts in zip(
            *(part.split([each - each // 5, each // 5]) for part in of_class), strict=True
        )
    )
    return DataSet(
        inputs[train], labels[train], inputs[test], labels[test], tuple(map(str, range(classes)))
    )
