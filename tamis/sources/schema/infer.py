"""The kind of each column, found out from its cells.

Numbers and dates are what nearly all cells can be read as. Text that repeats is a category, text
of several words is free text, text that hardly repeats is an id. Nothing is taken for missing in a
category but an empty cell: `None` and `NA` are values there, with a code of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.sources.pictures import PictureFiles
from tamis.sources.schema.array import Array
from tamis.sources.schema.category import Category
from tamis.sources.schema.cells import ABSENT_WORDS, Cells, is_absent, listed, numbers_of, texts_of
from tamis.sources.schema.column import Column
from tamis.sources.schema.encoded_text import EncodedText
from tamis.sources.schema.image import Image, holds_pictures
from tamis.sources.schema.left_out import Constant, Id
from tamis.sources.schema.number import PAIRS, Boolean, Number, notation_of
from tamis.sources.schema.text import FEW_WORDS, Text, mean_words
from tamis.sources.schema.times import DateTime, format_of, times_of
from tamis.sources.validation import BadInputError

KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (Number, Category, Boolean, DateTime, Text, Id, Constant, Array, Image, EncodedText)
}
MOST_UNREADABLE = 0.05
"""Share of cells that may be no number in a column of numbers: counted, and taken as missing."""
MOST_WITH_DIGITS = 0.005
"""The same for cells with digits in them: `12B` among numbers is a name, `unknown` is a gap."""
ENOUGH_ROWS = 20
"""Rows from which on values that do not repeat are ids, and a counter is one."""


def infer_column(name: str, cells: Cells, *, named: bool = False) -> Column:
    """Return the column that these cells make; `named` ones are inputs by a user's word."""
    if isinstance(cells, np.ndarray) and cells.ndim == 1 and cells.dtype.kind in "fiubM":
        if not np.isfinite(cells).any():
            return empty(name, cells, named)
        kinds: dict[str, type[Column]] = {"b": Boolean, "M": DateTime}
        kind = kinds.get(cells.dtype.kind, Number)
        return (
            Id(name)
            if kind is Number and not named and counts_up(cells)
            else kind.infer(name, cells)
        )
    if is_array(cells):
        return Array.infer(name, cells)
    texts = texts_of(cells)
    present = [text for text in texts if text]
    if len(set(present)) <= 1 and len(present) in (0, len(texts)) and not is_number(present):
        return empty(name, cells, named)
    clear = [text for text in present if text.lower() not in ABSENT_WORDS]
    if is_boolean(clear):
        return Boolean.infer(name, cells)
    if is_number(clear):
        numbers = numbers_of(clear, *notation_of(clear))
        return Id(name) if not named and counts_up(numbers) else Number.infer(name, cells)
    if clear and mostly_read(clear, times_of(clear, format_of(clear))):
        return DateTime.infer(name, cells)
    return string_column(name, present, cells, named)


def empty(name: str, cells: Cells, named: bool) -> Column:
    """Return a column without information; one that is an input later has codes for values."""
    return Category.infer(name, cells) if named else Constant.infer(name, cells)


def string_column(name: str, present: Sequence[str], cells: Cells, named: bool) -> Column:
    """Return a column of text as category, free text or id."""
    count, distinct, words = len(present), len(set(present)), mean_words(list(present))
    if words >= FEW_WORDS and distinct > max(10, 0.1 * count):
        return Text.infer(name, cells)
    if count >= ENOUGH_ROWS and distinct > 0.9 * count:
        unique = words < 1.5 and not named
        return Id(name) if unique else Text.infer(name, cells)
    if distinct > max(1000, 0.5 * count):
        return Text.infer(name, cells)
    return Category.infer(name, cells)


def is_array(cells: Cells) -> bool:
    """Return whether cells hold lists or arrays."""
    if isinstance(cells, np.ndarray) and cells.ndim > 1:
        return True
    first = next((cell for cell in cells if not is_absent(cell)), None)
    if not isinstance(first, list | tuple | np.ndarray):
        return False
    try:
        return np.asarray(first).dtype.kind in "fiub"
    except ValueError:  # rows of different lengths
        return False


def is_boolean(texts: Sequence[str]) -> bool:
    """Return whether texts are the two words of one pair."""
    found = {text.lower() for text in texts[:1000]}
    return found in map(set, PAIRS) and {text.lower() for text in texts} == found


def is_number(texts: Sequence[str]) -> bool:
    """Return whether texts are numbers; those of one length with zeros in front are codes."""
    if not texts or not mostly_read(texts, numbers_of(texts, *notation_of(texts))):
        return False
    zeros = any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in texts)
    return not (zeros and len({len(text) for text in texts}) == 1)


def mostly_read(texts: Sequence[str], found: np.ndarray) -> bool:
    """Return whether so many texts could be read that the others are gaps."""
    unread = [texts[at] for at in np.flatnonzero(np.isnan(found)).tolist()]
    digits = sum(any(map(str.isdigit, text)) for text in unread)
    return len(unread) <= MOST_UNREADABLE * len(texts) and digits <= MOST_WITH_DIGITS * len(texts)


def counts_up(numbers: np.ndarray) -> bool:
    """Return whether numbers count the rows: each is the one before and a fixed step."""
    if len(numbers) < ENOUGH_ROWS:
        return False
    steps = np.diff(numbers.astype(np.float64))
    return bool(steps[0] >= 1 and steps[0].is_integer() and (steps == steps[0]).all())


def kind_named(name: str, kind: str) -> type[Column]:
    """Return a kind by its name."""
    if kind not in KINDS:
        raise BadInputError(f"Column {name!r} cannot be {kind!r}; kinds are {', '.join(KINDS)}.")
    return KINDS[kind]


def infer_columns(
    cells: Mapping[str, Cells],
    kinds: Mapping[str, str],
    *,
    named: bool = False,
    pictures: PictureFiles | None = None,
    side: int | None = None,
) -> tuple[Column, ...]:
    """Return all columns, of the kinds that were chosen and else of those found out.

    Paths of pictures are looked up from where `pictures` has them begin. Pictures are then the
    only input.
    """
    for name in kinds:
        if name not in cells:
            raise BadInputError(
                f"There is no column {name!r} to be {kinds[name]!r}; there are {listed(cells)}."
            )
    found: list[Column] = []
    for name, column in cells.items():
        kind = kind_named(name, kinds[name]) if name in kinds else None
        if kind is Image or (kind is None and pictures and holds_pictures(column, pictures)):
            found.append(Image.infer(name, column, pictures, side))
        elif kind:
            found.append(kind.infer(name, column))
        else:
            found.append(infer_column(name, column, named=named))
    if seen := [column for column in found if isinstance(column, Image)]:
        return tuple(seen[:1])
    if found and not any(column.width for column in found):
        found = [as_input(column, cells[column.name], kinds) for column in found]
    if not any(column.width for column in found):
        raise BadInputError(
            f"No column can be learned from: {listed(f'{c.name} is {c.kind}' for c in found)}."
        )
    return tuple(found)


def as_input(column: Column, cells: Any, kinds: Mapping[str, str]) -> Column:
    """Return a column that would be left out as an input, where there is no other."""
    if column.name in kinds or isinstance(column, Constant):
        return column
    return infer_column(column.name, cells, named=True)
