"""Records to rows of a tensor, by the names of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from tamis.sources.protocol import BadRecordError
from tamis.sources.validation import NOT_NUMBERS, class_of


class Row(NamedTuple):
    """One input, the number of its class, and the record's own id, as a number and as text."""

    input: np.ndarray | Tensor
    label: int
    id: int | None = None
    name: str | None = None


ToRow = Callable[[Any], Any]
"""Turns a record into a `Row`, or a pair of input and label; an exception rejects it."""


@dataclass(frozen=True)
class Columns:
    """Turns records into rows of numbers from named columns; a column may also hold a list.

    A single column with a list of lists keeps its shape. `classes` are the labels in the order of
    their numbers, or how many there are where the labels are the numbers.

    >>> to_row = Columns(["width", "height"], label="kind", classes=["ant", "bee"])
    >>> to_row({"width": "1.5", "height": 2, "kind": "bee"})
    Row(input=array([1.5, 2. ], dtype=float32), label=1, id=None, name=None)
    """

    inputs: Sequence[str]
    label: str
    classes: Sequence[Any] | int
    id: str | None = None

    def __call__(self, record: Any) -> Row:
        """Return the row of one record."""
        values = [cell(record, name) for name in self.inputs]
        try:
            with np.errstate(over="ignore"):  # too large a number becomes infinite, and is refused
                if len(values) == 1:
                    numbers = np.atleast_1d(np.asarray(values[0], np.float32))
                elif any(isinstance(value, list | tuple | np.ndarray) for value in values):
                    numbers = np.concatenate([np.ravel(np.asarray(v, np.float32)) for v in values])
                else:
                    numbers = np.asarray(values, np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRecordError(NOT_NUMBERS, str(error)) from None
        label = label_of(record, self.label, self._numbers)
        return Row(numbers, label, *id_of(record, self.id))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return number_classes(self.classes)


def cell(record: Any, name: str) -> Any:
    """Return one column of a record."""
    if not isinstance(record, Mapping):
        raise BadRecordError("not a mapping", type(record).__name__)
    try:
        return record[name]
    except KeyError:
        raise BadRecordError("column missing", name) from None


def number_classes(classes: Sequence[Any] | int) -> dict[str, int]:
    """Return the number of each class by its name; a count stands for the numbers below it."""
    names = range(classes) if isinstance(classes, int) else classes
    return {str(name): number for number, name in enumerate(names)}


def label_of(record: Any, name: str, numbers: Mapping[str, int]) -> int:
    """Return the number of a record's class."""
    label = cell(record, name)
    if isinstance(label, float) and label.is_integer():
        label = int(label)  # as columns of integers come, where one of them is missing
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    return class_of(label, numbers)


def id_of(record: Any, name: str | None) -> tuple[int | None, str | None]:
    """Return a record's id as a number and as text; text that is no number is hashed to one."""
    if name is None:
        return None, None
    value = cell(record, name)
    if value is None or value == "":
        raise BadRecordError("id missing")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value, str(value)
    digest = blake2b(str(value).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1, str(value)
