"""A chart as a template draws it: coordinates, ticks, a legend, and the values for the script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tamis.web.axis import Range, tick_texts, ticks
from tamis.web.chart import COLOURS, Line, Plot, stair

SIZE = 1000
"""Width and height of the coordinates; a page stretches them to the room that it has."""
MOST_TEXTS = 8
"""Marks with a text; where there are more, texts would lie on each other."""


@dataclass(frozen=True)
class Tick:
    """A place on an axis, in percent of it, its text, and the side of it that the text is on."""

    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class DrawnLine:
    """A line as coordinates, its band, and what the legend has of it."""

    name: str
    style: str
    points: str
    band: str
    last: str
    dot: tuple[float, float] | None


@dataclass(frozen=True)
class DrawnPlot:
    """A plot as a template needs it. `href` leads to its numbers, `data` is for the script."""

    name: str
    title: str
    caption: str
    label: str
    href: str
    data: str
    lines: Sequence[DrawnLine]
    across: Sequence[Tick]
    up: Sequence[Tick]
    marks: Sequence[Tick]
    unit: str


def draw(plot: Plot, href: str) -> DrawnPlot:
    """Return a plot as coordinates."""
    width, height = plot.width, plot.height
    caption = f"{plot.caption} {plot.note}".strip()
    ends = "; ".join(
        f"{line.name}: {value_text(line.values[-1], plot.unit)}" for line in plot.named
    )
    several = len(plot.marks) > MOST_TEXTS
    return DrawnPlot(
        name=plot.name,
        title=plot.title,
        caption=caption,
        label=f"{plot.title}. At the end: {ends}." if ends else plot.title,
        href=href,
        data=json.dumps(data_of(plot, width, height), allow_nan=False),
        lines=[draw_line(line, plot.unit, width, height) for line in plot.lines if len(line)],
        across=labelled(width, integers=True),
        up=labelled(height),
        marks=[
            side(width, mark.slot, "" if several else mark.text)
            for mark in plot.marks
            if width.low <= mark.slot <= width.high
        ],
        unit=plot.unit,
    )


def draw_line(line: Line, unit: str, width: Range, height: Range) -> DrawnLine:
    """Return a line as coordinates."""
    corners = stair(line.slots, line.values) if line.steps else zip(
        line.slots, line.values, strict=True
    )  # fmt: skip
    band = ""
    if line.band:
        low, high = line.band
        upper = zip(line.slots, high, strict=True)
        lower = reversed(list(zip(line.slots, low, strict=True)))
        band = coordinates(chain(upper, lower), width, height)
    colour = f"s{line.colour % len(COLOURS)}" if line.name else "background"
    alone = (width.share(line.slots[0]), 1 - height.share(line.values[0]))
    return DrawnLine(
        line.name,
        f"{colour} dashed" if line.dashed else colour,
        coordinates(corners, width, height),
        band,
        value_text(line.values[-1], unit),
        (percent(alone[0]), percent(alone[1])) if len(line) == 1 else None,
    )


def coordinates(points: Iterable[tuple[float, float]], width: Range, height: Range) -> str:
    """Return points as SVG has them."""
    return " ".join(
        f"{SIZE * width.share(slot):.1f},{SIZE * (1 - height.share(value)):.1f}"
        for slot, value in points
    )


def data_of(plot: Plot, width: Range, height: Range) -> dict[str, object]:
    """Return the values that the script shows: those of the lines that have a name."""
    return {
        "unit": plot.unit,
        "width": width,
        "height": height,
        "lines": [
            {
                "name": line.name,
                "mean": line.mean_of,
                "slots": [number(slot) for slot in line.slots],
                "values": [number(value) for value in line.values],
                "low": [number(value) for value in line.band[0]] if line.band else None,
                "high": [number(value) for value in line.band[1]] if line.band else None,
            }
            for line in plot.named
        ],
        "marks": [{"slot": mark.slot, "text": mark.text} for mark in plot.marks],
    }


def number(value: float) -> float:
    """Return a number with six digits, as the CSV has it."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def value_text(value: float, unit: str) -> str:
    """Return a value as the legend has it."""
    return f"{value:.3f}" if unit == "share" else f"{value:.1f} ms"


def labelled(ends: Range, *, integers: bool = False) -> list[Tick]:
    """Return the ticks of an axis: across with integers, else from top to bottom."""
    values = ticks(ends, integers=integers)
    shares = [ends.share(value) for value in values]
    return [
        Tick(percent(at if integers else 1 - at), text, "end" if at > 0.97 else "middle")
        for at, text in zip(shares, tick_texts(values), strict=True)
    ]


def side(width: Range, slot: float, text: str) -> Tick:
    """Return a mark across, with its text on the side where there is room."""
    share = width.share(slot)
    return Tick(percent(share), text, "end" if share > 0.8 else "start")


def percent(share: float) -> float:
    """Return a share in percent, with few digits."""
    return round(100 * share, 2)
