"""The figure of the board: accuracy against forward passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tamis.lab.pages.board_findings import BASELINE
from tamis.lab.pages.board_tables import Table

GREY, BLUE = "#7d8590", "#2f81f7"
SMALL: dict[str, Any] = {"color": GREY, "fontsize": 8}
NAMED = (BASELINE, "oracle")
"""Methods that the figure names wherever they are."""


def draw_cost(tables: Sequence[Table]) -> Figure:
    """Draw accuracy against forward passes, a dot a method, at a clean ratio of 0.5."""
    columns = min(2, len(tables))
    lines = -(-len(tables) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.2 * lines), layout="constrained", facecolor="none")
    places = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, table in zip(places, tables, strict=False):
        draw_table(axes, table)
    for axes in places[len(tables) :]:
        axes.set_axis_off()
    return figure


def draw_table(axes: Axes, table: Table) -> None:
    """Draw one table; without side information, those that beat all cheaper ones are named."""
    middle = (row.cells[table.middle] for row in table.rows)
    best = -math.inf
    for cell in sorted(filter(None, middle), key=lambda cell: (cell.forward, -cell.better.mean)):
        at = cell.forward, cell.better.mean
        fill = "none" if cell.side_information else "full"
        axes.plot(*at, "o", color=BLUE, fillstyle=fill, markersize=5)
        leads = not cell.side_information and at[1] > best
        if leads or cell.method in NAMED:
            axes.annotate(
                cell.method, at, (6, 2), textcoords="offset points", parse_math=False, **SMALL
            )
        best = at[1] if leads else best
    ratio = f"clean ratio {table.clean_ratios[table.middle]:g}"
    axes.set_title(f"{table.title}, {ratio}", parse_math=False, color=GREY, fontsize=10)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("rows passed forward for every row trained on", **SMALL)
    axes.set_ylabel("accuracy (hollow: with side information)", **SMALL)
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=GREY, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
