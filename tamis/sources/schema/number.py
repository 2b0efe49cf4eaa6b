"""Columns of numbers, and of booleans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tamis.sources.schema.cells import (
    GROUPINGS,
    UNITS,
    Cells,
    numbers_of,
    texts_of,
)
from tamis.sources.schema.column import Column, Part, readable, share_missing, with_estimates

PAIRS = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"))
WORDS = {word: float(at) for pair in PAIRS for at, word in enumerate(pair)} | {"0": 0.0, "1": 1.0}


class Notation(NamedTuple):
    """How numbers are written: decimal sign, sign between groups of digits, unit."""

    decimal: str = "."
    grouping: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Number(Column):
    """A number on its own scale; a missing one becomes the median, with a flag beside it."""

    kind: ClassVar[str] = "number"
    part: ClassVar[Part] = "numbers"
    median: float = 0.0
    missing: float = 0.0
    decimal: str = "."
    grouping: str = ""
    unit: str = ""

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with its median and its notation."""
        notation = notation_of(cells)
        numbers = numbers_of(cells, *notation)
        present = numbers[~np.isnan(numbers)]
        median = float(np.float32(np.median(present))) if len(present) else 0.0
        return cls(name, median, share_missing(numbers), *notation)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the number, and of its flag."""
        return (self.name, f"{self.name} missing") if self.flagged else (self.name,)

    def read(self, cells: Cells) -> np.ndarray:
        """Return the numbers as doubles, NaN where there is none."""
        return numbers_of(cells, self.decimal, self.grouping, self.unit)[:, None]

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers, and the flags."""
        return with_estimates(values, (self.median,), self.flagged)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the number as text."""
        return None if self.flagged and cells[1] else readable(cells[0])

    def note(self) -> str:
        """Return the median and the notation."""
        marks = ["decimal comma"] if self.decimal == "," else []
        marks += [f"in {self.unit}"] if self.unit else []
        return ", ".join([f"median {readable(self.median)}", *marks])


@dataclass(frozen=True)
class Boolean(Column):
    """Yes or no, in whatever words; a missing one becomes the share of yes, with a flag."""

    kind: ClassVar[str] = "boolean"
    part: ClassVar[Part] = "numbers"
    share: float = 0.5
    missing: float = 0.0
    words: tuple[str, str] = ("false", "true")

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with its words and the share of yes."""
        values = booleans_of(cells)
        present = values[~np.isnan(values)]
        found = {text.lower(): text for text in reversed(texts_of(cells)[:1000])}
        low = next(
            (found[word] for word, value in WORDS.items() if not value and word in found), ""
        )
        high = next((found[word] for word, value in WORDS.items() if value and word in found), "")
        share = float(np.float32(present.mean())) if len(present) else 0.5
        return cls(name, share, share_missing(values), (low or "false", high or "true"))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the boolean, and of its flag."""
        return (self.name, f"{self.name} missing") if self.flagged else (self.name,)

    def read(self, cells: Cells) -> np.ndarray:
        """Return 0 or 1, NaN where there is neither."""
        return booleans_of(cells)[:, None]

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Return 0 or 1, and the flags."""
        return with_estimates(values, (self.share,), self.flagged)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the word that the file has."""
        return None if self.flagged and cells[1] else self.words[int(cells[0] >= 0.5)]

    def note(self) -> str:
        """Return the words."""
        return " or ".join(self.words)


def booleans_of(cells: Cells) -> np.ndarray:
    """Return 0 and 1 for the words of no and yes, NaN for anything else."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        found = cells.astype(np.float64)
        found[(found != 0) & (found != 1)] = np.nan
        return found
    nan = float("nan")
    return np.array([WORDS.get(text.lower(), nan) for text in texts_of(cells)], np.float64)


def notation_of(cells: Cells, most: int = 10_000) -> Notation:
    """Return how numbers are written, by which way reads the most of them.

    Where two ways read as many, the plainer one is taken. `1,234` alone may be either: with a
    decimal comma in any other cell it has one, else its comma groups digits.
    """
    if isinstance(cells, np.ndarray):
        return Notation()
    texts = [text for text in texts_of(cells) if text][:most]
    if count(texts, Notation()) == len(texts):
        return Notation()
    joined = "".join(texts)
    marked = any(mark in joined for mark in (",", *UNITS, *GROUPINGS[2:]))
    if not marked and not any(text.count(".") > 1 for text in texts):
        return Notation()
    unit = next(
        (unit for unit in UNITS if sum(unit in text for text in texts) * 2 > len(texts)), ""
    )
    ways = [Notation(".", "", unit)]
    ways += [Notation(".", mark, unit) for mark in GROUPINGS if mark != "."]
    ways += [Notation(",", mark, unit) for mark in ("", *GROUPINGS) if mark != ","]
    first = texts[:100]
    counts = [count(first, way) for way in ways]
    if 2 * max(counts) < len(first):
        return Notation()
    ways = [way for way, read in zip(ways, counts, strict=True) if read]
    counts = [count(texts, way) for way in ways]
    return ways[counts.index(max(counts))]


def count(texts: Sequence[str], way: Notation) -> int:
    """Return how many texts a notation reads."""
    return int((~np.isnan(numbers_of(texts, *way))).sum())
