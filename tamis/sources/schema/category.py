"""Columns of categories."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import Cells, text_of, texts_of
from tamis.sources.schema.column import Column, Part

MISSING, UNSEEN, FIRST = 0, 1, 2
"""Codes: of an empty cell, of a value that has none, of the first value."""
MOST_VALUES = 10_000
RARE_FROM = 50
"""Cells from which on a value needs two of them for a code: so the code for unseen is trained."""


@dataclass(frozen=True)
class Category(Column):
    """One of some values; an empty cell and a value not seen before have codes of their own."""

    kind: ClassVar[str] = "category"
    part: ClassVar[Part] = "categories"
    values: tuple[str, ...] = ()

    @classmethod
    def infer(cls, name: str, cells: Cells) -> Self:
        """Return the column with the values that occur often enough."""
        counts = Counter(texts_of(cells))
        counts.pop("", None)
        least = 2 if counts.total() >= RARE_FROM else 1
        common = [value for value, times in counts.most_common(MOST_VALUES) if times >= least]
        return cls(name, tuple(sorted(common)))

    @property
    def codes(self) -> int:
        """Number of codes."""
        return FIRST + len(self.values)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the codes."""
        return (self.name,)

    def read(self, cells: Cells) -> np.ndarray:
        """Return the code of each cell."""
        texts = texts_of(cells)
        codes = list(map(self._codes.get, texts, repeat(UNSEEN)))
        found = np.array(codes, np.float32)
        for at in np.flatnonzero(found == UNSEEN).tolist():  # 3.0 for 3, as a frame writes it
            found[at] = self._codes.get(as_integer(texts[at]), UNSEEN)
        return found[:, None]

    def decode(self, cells: np.ndarray) -> str | None:
        """Return the value of a code."""
        code = int(cells[0])
        if code < FIRST:
            return None if code == MISSING else "(other)"
        return self.values[code - FIRST]

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return which cells were empty."""
        return np.asarray(values[:, 0] == 0, bool)

    def note(self) -> str:
        """Return the number of values, and the first ones."""
        some = ", ".join(value[:20] for value in self.values[:4])
        more = ", …" if len(self.values) > 4 else ""
        return f"{len(self.values)} values: {some}{more}"

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {"": MISSING} | {value: FIRST + at for at, value in enumerate(self.values)}


def as_integer(text: str) -> str:
    """Return a number without a fraction as an integer is written, other text as it is."""
    if not text.endswith("0") or "." not in text:
        return text
    try:
        return text_of(float(text))
    except ValueError:
        return text
