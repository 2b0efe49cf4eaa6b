"""What a column of labels must be: some classes, each in some rows."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.sources.validation import BadInputError

FEW_CLASSES = 20
"""Distinct labels up to which a table may have no label twice."""
MOST_FRACTIONS = 50
"""Distinct labels with a fraction, as in ratings, beyond which they are numbers to predict."""


def check_classes(table: str, label: str, counts: Mapping[str, int], rows: int) -> None:
    """Raise in one sentence where labels are no classes, before anything is allocated."""
    found = len(counts)
    column = f"{table}: column {label!r}"
    if found == 1:
        raise BadInputError(
            f"{column} has one class only, {next(iter(counts))[:40]!r}: nothing can be"
            " learned from it."
        )
    if found > MOST_FRACTIONS and all(map(is_number, counts)) and any(map(has_fraction, counts)):
        raise BadInputError(
            f"{column} has {found} distinct numbers in {rows} rows. These are no classes: is it a"
            " number to predict?"
        )
    if found > FEW_CLASSES and 2 * found > rows:
        raise BadInputError(
            f"{column} has {found} distinct values in {rows} rows. These are no classes: is it a"
            " number to predict, or an id?"
        )


def is_number(text: str) -> bool:
    """Return whether a label is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def has_fraction(text: str) -> bool:
    """Return whether a number is no integer."""
    return not float(text).is_integer()
