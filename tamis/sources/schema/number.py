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
    absent_in,
    numbers_of,
    texts_of,
)
from tamis.sources.schema.column import Column, Part, flagged, readable

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
    missing: bool = False
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
        return cls(name, median, len(present) < len(numbers), *notation)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the number, and of its flag."""
        return (self.name, f"{self.name} missing") if self.missing else (self.name,)

    def read(self, cells: Cells) -> np.ndarray:
        """Return the numbers as doubles, NaN where there is none."""
        return numbers_of(cells, self.decimal, self.grouping, self.unit)

    def encode(self, cells: Cells) -> np.ndarray:
        """Return the numbers, and the flags."""
        return flagged(self.read(cells)[:, None], (self.median,), self.missing)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the number as text."""
        return None if self.missing and cells[1] else readable(cells[0])

    def unreadable(self, cells: Cells) -> int:
        """Return how many cells are neither empty nor a number."""
        return int((np.isnan(self.read(cells)) & ~absent_in(cells)).sum())

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
    missing: bool = False
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
        return cls(name, share, len(present) < len(values), (low or "false", high or "true"))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the boolean, and of its flag."""
        return (self.name, f"{self.name} missing") if self.missing else (self.name,)

    def encode(self, cells: Cells) -> np.ndarray:
        """Return 0 or 1, and the flags."""
        return flagged(booleans_of(cells)[:, None], (self.share,), self.missing)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the word that the file has."""
        return None if self.missing and cells[1] else self.words[int(cells[0] >= 0.5)]

    def unreadable(self, cells: Cells) -> int:
        """Return how many cells are neither empty nor a word for yes or no."""
        return int((np.isnan(booleans_of(cells)) & ~absent_in(cells)).sum())

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
    if not any(mark in text for text in texts for mark in (",", *UNITS, *GROUPINGS[2:])):
        groups = [text for text in texts if text.count(".") > 1]
        return Notation(",", ".") if groups and count(texts, Notation(",", ".")) else Notation()
    unit = next(
        (unit for unit in UNITS if sum(unit in text for text in texts) * 2 > len(texts)), ""
    )
    ways = [Notation(".", "", unit)]
    ways += [Notation(".", mark, unit) for mark in GROUPINGS if mark != "."]
    ways += [Notation(",", mark, unit) for mark in ("", *GROUPINGS) if mark != ","]
    counts = [count(texts, way) for way in ways]
    return ways[counts.index(max(counts))]


def count(texts: Sequence[str], way: Notation) -> int:
    """Return how many texts a notation reads."""
    return int((~np.isnan(numbers_of(texts, *way))).sum())
