"""What a column of labels must be: some classes, each in some rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tamis.sources.schema.cells import numbers_of
from tamis.sources.schema.number import notation_of
from tamis.sources.validation import BadInputError

FEW_CLASSES = 20
"""Distinct labels up to which most rows may have one of their own."""
FEW_ROWS = 10
"""Rows from which on not all may have one of their own."""
MOST_FRACTIONS = 50
"""Distinct numbers, as in ratings, beyond which those with a fraction are to be predicted."""
OFTEN = 10
"""Rows for each distinct integer from which on it may be the number of a class, gaps or not."""


def check_classes(table: str, label: str, counts: Mapping[str, int], rows: int) -> None:
    """Raise in one sentence where labels are not classes, before anything is allocated."""
    found, labelled = len(counts), sum(counts.values())
    column = f"{table}: column {label!r}"
    if found == 1:
        raise BadInputError(
            f"{column} has one class only, {next(iter(counts))[:40]!r}: nothing can be"
            " learned from it."
        )
    if found > MOST_FRACTIONS and are_amounts(counts):
        raise BadInputError(
            f"{column} has {found} distinct numbers in {rows} rows. These are not classes: is it a"
            f" number to predict? If not, --kind {label}=category."
        )
    if (found > FEW_CLASSES and 2 * found > labelled) or found == labelled >= FEW_ROWS:
        raise BadInputError(
            f"{column} has {found} distinct values in {rows} rows. These are not classes: is it a"
            f" number to predict, or an id? If not, --kind {label}=category."
        )


def are_amounts(counts: Mapping[str, int]) -> bool:
    """Return whether labels are numbers to predict: some with a fraction, or integers with gaps."""
    texts = list(counts)
    numbers = numbers_of(texts, *notation_of(texts))
    if np.isnan(numbers).any():
        return False
    if (numbers % 1).any():
        return True
    span = numbers.max() - numbers.min() + 1
    return bool(span > 2 * len(numbers) and sum(counts.values()) < OFTEN * len(numbers))


def is_number(text: str) -> bool:
    """Return whether a label is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
