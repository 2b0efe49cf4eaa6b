"""Plots: lines over slots, with their numbers. Pages draw them, `svg.py` writes files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tamis.runs.spreadsheet import disarm
from tamis.web.axis import Range, limits

COLOURS = ("#1f6feb", "#b45309", "#1a7f5a", "#a0438f", "#5b6470", "#7d6608")
"""Of lines as files have them; pages have their own for light and dark (`page.css`)."""
MOST_POINTS = 400
"""Points of a line, at the most: a screen shows no more of them."""
Curve = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Line:
    """Values over slots. One without a name is drawn in the background.

    Parameters
    ----------
    name: name in the legend
    slots: slots, ascending
    values: a value for each
    colour: which of the colours
    band: the lower and the upper end of a band, for each slot
    dashed: draw it dashed
    steps: a value holds until the next slot
    mean_of: slots that a value is the mean of
    """

    name: str
    slots: Sequence[float]
    values: Sequence[float]
    colour: int = 0
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dashed: bool = False
    steps: bool = False
    mean_of: int = 1

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class Mark:
    """A slot at which something happened, and what."""

    slot: float
    text: str


@dataclass(frozen=True)
class Plot:
    """Lines, with a caption and the numbers behind them as columns.

    Parameters
    ----------
    name: name of its files
    title: title
    caption: what is drawn, in a sentence or two
    lines: the lines
    columns: the numbers, by the name of their column
    unit: `share`, from 0 to 1, or `ms`
    marks: slots to mark
    zoomed: begin the axis near the lowest values, so that differences show
    """

    name: str
    title: str
    caption: str
    lines: Sequence[Line]
    columns: Mapping[str, Sequence[object]]
    unit: str = "share"
    marks: Sequence[Mark] = field(default=())
    zoomed: bool = False

    @property
    def named(self) -> list[Line]:
        """The lines that have a name and values."""
        return [line for line in self.lines if line.name and len(line)]

    @property
    def height(self) -> Range:
        """The values from the lower to the upper end of the axis."""
        lines = [line.values for line in self.lines if len(line)]
        bands = [side for line in self.lines if line.band for side in line.band]
        return limits([*lines, *bands], share=self.unit == "share", zoomed=self.zoomed)

    @property
    def width(self) -> Range:
        """The slots from the first to the last."""
        ends = [end for line in self.lines if len(line) for end in (line.slots[0], line.slots[-1])]
        low, high = min(ends), max(ends)
        return Range(low, high) if high > low else Range(low - 0.5, low + 0.5)

    @property
    def note(self) -> str:
        """What a reader needs to know of the axis and of the points, empty if nothing."""
        mean_of = max((line.mean_of for line in self.named), default=1)
        axis = f"The axis begins at {self.height.low:g}." if self.height.low > 0 else ""
        points = f"Each point is the mean of {mean_of:,} slots." if mean_of > 1 else ""
        return f"{axis} {points}".strip()

    def to_csv(self) -> str:
        """Write the numbers as CSV."""
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow([disarm(name) for name in self.columns])
        for row in zip(*self.columns.values(), strict=True):
            writer.writerow(
                [disarm(cell) if isinstance(cell, str) else short(cell) for cell in row]
            )
        return out.getvalue()


def short(value: object) -> object:
    """Return a number with six digits, and an empty cell for NaN or None."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return "" if value is None else value


def thin(curve: Curve) -> Curve:
    """Return a curve of at most `MOST_POINTS` points, the last among them; none is changed."""
    count = len(curve[0])
    if count <= MOST_POINTS:
        return curve
    kept = np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(int))
    return curve[0][kept], curve[1][kept]


def stair(slots: Sequence[float], values: Sequence[float]) -> Iterable[tuple[float, float]]:
    """Yield the corners of a line whose values hold until the next slot."""
    for (at, value), (after, _) in pairwise(zip(slots, values, strict=True)):
        yield at, value
        yield after, value
    if len(slots):
        yield slots[-1], values[-1]
