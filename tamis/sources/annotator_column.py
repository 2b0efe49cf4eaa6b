"""Numbers of annotators by their names, as records bring them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tamis.sources.class_numbers import ClassNumbers
from tamis.sources.schema.cells import text_of

MOST_ANNOTATORS = 10_000
"""Annotators that are distinguished; whoever comes after them counts as not known."""


class AnnotatorColumn:
    """The column that names annotators; they are numbered as they come up. None is no column.

    >>> annotator = AnnotatorColumn("worker")
    >>> annotator({"worker": "Ann"}), annotator({"worker": "Bob"}), annotator({"worker": ""})
    (0, 1, None)
    """

    def __init__(self, name: str | None, most: int = MOST_ANNOTATORS) -> None:
        self.name = name
        self.numbers = ClassNumbers((), most)

    def __call__(self, record: Mapping[str, Any]) -> int | None:
        """Return the number of a record's annotator; None where he is not known."""
        return None if self.name is None else self.number(record.get(self.name))

    def number(self, cell: Any) -> int | None:
        """Return the number of the annotator whom a cell names."""
        text = text_of(cell)
        if not text or text in self.numbers:
            return self.numbers.get(text)
        full = len(self.numbers) == self.numbers.max_classes
        return None if full else self.numbers.add(text)


def annotators_of(to_row: object) -> AnnotatorColumn:
    """Return the column of annotators of what turns records into rows; without a name, none."""
    found = getattr(to_row, "annotators", None)
    return found if isinstance(found, AnnotatorColumn) else AnnotatorColumn(None)
