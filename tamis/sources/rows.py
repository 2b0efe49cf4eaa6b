"""Records to rows of a tensor, by the names of their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from tamis.sources.annotator_column import AnnotatorColumn
from tamis.sources.class_numbers import ClassNumbers
from tamis.sources.protocol import BadRecordError
from tamis.sources.validation import NOT_NUMBERS, class_of, label_text

NOTHING = "neither inputs nor label"


class Row(NamedTuple):
    """One input, the number of its class, and the record's own id, as a number and as text.

    A row may come without its label. Without an input, the label is that of the row of this id,
    which came before or is to come; without either, the label of that row is withdrawn. `annotator`
    numbers who gave the label, `time` is in seconds since 1970.
    """

    input: np.ndarray | Tensor | None
    label: int | None
    id: int | None = None
    name: str | None = None
    annotator: int | None = None
    time: float | None = None


ToRow = Callable[[Any], Any]
"""Turns a record into a `Row`, or a pair of input and label; an exception rejects it."""


@dataclass(frozen=True)
class Columns:
    """Turns records into rows of numbers from named columns; a column may also hold a list.

    A single column with a list of lists keeps its shape. `classes` are the labels in the order of
    their numbers, or how many there are where the labels are the numbers. With `max_classes` other
    labels are new classes, up to so many in all; a `Feed` keeps their names in its offset. Records
    with an `id` and none of the inputs are labels of other rows. `time` is the column of times,
    `annotator` that of the names of annotators.

    >>> to_row = Columns(["width", "height"], label="kind", classes=["ant", "bee"])
    >>> to_row({"width": "1.5", "height": 2, "kind": "bee"})
    Row(input=array([1.5, 2. ], dtype=float32), label=1, id=None, name=None, annotator=None, time=None)
    """  # noqa: E501

    inputs: Sequence[str]
    label: str
    classes: Sequence[Any] | int
    id: str | None = None
    max_classes: int | None = None
    time: str | None = None
    annotator: str | None = None

    def __call__(self, record: Any) -> Row:
        """Return the row of one record."""
        if self.id is not None and not has_inputs(record, self.inputs):
            alone = label_alone(record, self.label, self.numbers, self.id, time=self.time)
            return alone._replace(annotator=self.annotators(record))
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
        label = label_of(record, self.label, self.numbers)
        time = time_of(record, self.time)
        return Row(numbers, label, *id_of(record, self.id), self.annotators(record), time)

    @cached_property
    def annotators(self) -> AnnotatorColumn:
        """The numbers of the annotators by name."""
        return AnnotatorColumn(self.annotator)

    @cached_property
    def numbers(self) -> ClassNumbers:
        """The numbers of the classes by name."""
        return ClassNumbers(self.classes, self.max_classes)


def cell(record: Any, name: str) -> Any:
    """Return one column of a record."""
    if not isinstance(record, Mapping):
        raise BadRecordError("not a mapping", type(record).__name__)
    try:
        return record[name]
    except KeyError:
        raise BadRecordError("column missing", name) from None


def has_inputs(record: Any, names: Iterable[str]) -> bool:
    """Return whether a record has a value in any of its columns of inputs."""
    return not isinstance(record, Mapping) or any(is_given(record.get(name)) for name in names)


def is_given(value: Any) -> bool:
    """Return whether a cell holds a value."""
    if isinstance(value, float):
        return not math.isnan(value)
    return value is not None and not (isinstance(value, str) and not value.strip())


def label_alone(
    record: Any, name: str, numbers: ClassNumbers, id_name: str, *, time: str | None
) -> Row:
    """Return the label of a record without inputs, which is about the row of its id."""
    if name not in record:
        raise BadRecordError(NOTHING)
    label = label_of(record, name, numbers)
    return Row(None, label, *id_of(record, id_name), time=time_of(record, time))


def time_of(record: Any, name: str | None) -> float | None:
    """Return when a record was made: seconds since 1970, or ISO 8601, which is UTC without a zone.

    >>> time_of({"at": "1970-01-01T00:01:00"}, "at"), time_of({"at": "2.5"}, "at")
    (60.0, 2.5)
    """
    value: Any = None if name is None else record.get(name)
    if not is_given(value):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise BadRecordError("time not understood", str(value)[:100]) from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise BadRecordError("time not understood", str(value)[:100])
    return seconds


def label_of(record: Any, name: str, numbers: ClassNumbers) -> int | None:
    """Return the number of a record's class; None where it has no label."""
    if not isinstance(record, Mapping):
        raise BadRecordError("not a mapping", type(record).__name__)
    label = record.get(name)
    if not label_text(label):
        return None
    if isinstance(label, float) and label.is_integer():
        label = int(label)  # as columns of integers come, where one of them is missing
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    return class_of(label, numbers)


def id_of(record: Any, name: str | None) -> tuple[int | None, str | None]:
    """Return a record's id as a number and as text; text that is not a number is hashed to one."""
    if name is None:
        return None, None
    value = cell(record, name)
    if value is None or value == "":
        raise BadRecordError("id missing")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value, str(value)
    digest = blake2b(str(value).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1, str(value)


def open_numbers(to_row: ToRow) -> ClassNumbers:
    """Return the numbers of the classes where records may name new ones; else none, and closed."""
    numbers = getattr(to_row, "numbers", None)
    return numbers if isinstance(numbers, ClassNumbers) and numbers.open else ClassNumbers(())


def without_unused(
    made: list[Row | BadRecordError], numbers: ClassNumbers, known: int
) -> list[Row | BadRecordError]:
    """Return rows where classes beyond the `known` ones are those of usable rows alone.

    A record that is rejected for its inputs names no class.
    """
    if len(numbers) == known:
        return made
    rows = [row for row in made if isinstance(row, Row)]
    places = numbers.keep([row.label for row in rows if row.label is not None], first=known)
    return [
        row._replace(label=places.get(row.label, row.label))
        if isinstance(row, Row) and row.label is not None
        else row
        for row in made
    ]
