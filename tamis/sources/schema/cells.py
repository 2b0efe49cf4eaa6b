"""Cells as files and frames have them, read a column at a time: texts, numbers, words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

Cells = Sequence[Any] | np.ndarray
"""One column: a flat numpy array of numbers, booleans or times, or cells of any type."""

ABSENT_WORDS = frozenset(
    ("na", "n/a", "n.a.", "nan", "<na>", "#n/a", "null", "none", "nil", "nat", "missing",
     "unknown", "?", "-", "--", ".")
)  # fmt: skip
"""What stands for a missing number, date or boolean; in a category such a word is a value."""
UNITS = "%$€£¥"
GROUPINGS = (",", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
"""Characters between groups of three digits."""
LARGEST = float(np.finfo(np.float32).max)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names for one line of a message: some of them, without line breaks, not too long.

    >>> listed(["a", "b\\nc", "d"], most=2)
    'a, b c, and 1 more'
    """
    texts = [" ".join(str(name).split())[:40] for name in names]
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return ", ".join(texts[:most] + more) or "none"


def is_absent(cell: Any) -> bool:
    """Return whether a cell is empty: None, NaN, NaT or text of no letters."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):  # an array, or pandas.NA
        return not isinstance(cell, np.ndarray)


def text_of(cell: Any) -> str:
    """Return a cell as text without space around it; a missing one is empty.

    >>> [text_of(cell) for cell in (" a ", 3.0, 3, None, float("nan"), True, [1, 2])]
    ['a', '3', '3', '', '', 'True', '[1, 2]']
    """
    if isinstance(cell, str):
        return cell.strip()
    if is_absent(cell):
        return ""
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(cell)
    if isinstance(cell, bytes):
        return cell.decode(errors="replace").strip()
    if isinstance(cell, date):  # and datetime
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return str(cell.total_seconds())
    if isinstance(cell, dict | list | tuple):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell).strip()


def texts_of(cells: Cells) -> list[str]:
    """Return the cells of a column as texts."""
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    try:
        return list(map(str.strip, values))
    except TypeError:  # some cell is not text
        return list(map(text_of, values))


def absent_in(cells: Cells) -> np.ndarray:
    """Return which cells hold nothing, or a word for nothing."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiubMm":
        return np.isnan(cells) if cells.dtype.kind in "fMm" else np.zeros(len(cells), bool)
    found = (not text or text.lower() in ABSENT_WORDS for text in texts_of(cells))
    return np.fromiter(found, bool, len(cells))


def unread(values: np.ndarray, cells: Cells) -> np.ndarray:
    """Return which cells hold something although no value was read from them."""
    found: np.ndarray = np.isnan(values)
    if found.any():
        at = np.flatnonzero(found)
        found[at] = ~absent_in([cells[place] for place in at.tolist()])
    return found


def numbers_of(cells: Cells, decimal: str = ".", grouping: str = "", unit: str = "") -> np.ndarray:
    """Return the cells of a column as doubles; NaN where one is missing, or no finite single.

    >>> numbers_of(["1.234,5 €", "-7", "", "x"], ",", ".", "€").tolist()
    [1234.5, -7.0, nan, nan]
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        found = cells.astype(np.float64)
    elif decimal == "." and not grouping and not unit:
        found = plain_numbers(cells)
    else:
        read = NumberReader(decimal, grouping, unit)
        found = np.array([read(cell) for cell in cells], np.float64)
    with np.errstate(invalid="ignore"):
        found[~(np.abs(found) <= LARGEST)] = np.nan
    return found


def plain_numbers(cells: Cells) -> np.ndarray:
    """Return numbers with a decimal point; most columns are read by the first of three ways."""
    try:
        found = np.array(list(map(float, cells)), np.float64)
    except (TypeError, ValueError, OverflowError):
        try:
            found = np.array(
                [math.nan if cell is None or cell == "" else float(cell) for cell in cells],
                np.float64,
            )
        except (TypeError, ValueError, OverflowError):
            return np.array(list(map(plain_number, cells)), np.float64)
    if has_underscore(cells):
        return np.array(list(map(plain_number, cells)), np.float64)
    return found


def has_underscore(cells: Cells) -> bool:
    """Return whether some text has an underscore in it."""
    try:
        return "_" in "".join(cells)
    except TypeError:  # some cell is not text
        return any(isinstance(cell, str) and "_" in cell for cell in cells)


def plain_number(cell: Any) -> float:
    """Return a number, or NaN; Python also reads 1_000, which is more likely a name."""
    try:
        return math.nan if isinstance(cell, str) and "_" in cell else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


class NumberReader:
    """Reads numbers with a decimal comma, with groups of digits, or with a unit."""

    def __init__(self, decimal: str, grouping: str, unit: str) -> None:
        self.unit = unit
        self.decimal = decimal
        self.grouping = grouping
        group, point = re.escape(grouping), re.escape(decimal)
        self._shape = re.compile(rf"[+-]?\d{{1,3}}({group}\d{{3}})+({point}\d+)?" if group else "")

    def __call__(self, cell: Any) -> float:
        """Return a number, or NaN."""
        if not isinstance(cell, str):
            return plain_number(cell)
        text = cell.strip()
        if self.unit:
            text = text.replace(self.unit, "", 1).strip()
        if self.grouping and self.grouping in text:
            if not self._shape.fullmatch(text):
                return math.nan
            text = text.replace(self.grouping, "")
        if self.decimal != ".":
            text = text.replace(self.decimal, ".")
        return plain_number(text)


def single(numbers: np.ndarray) -> np.ndarray:
    """Return doubles as singles; what is too large was taken out before."""
    return numbers.astype(np.float32)
