"""Plots as files, drawn by matplotlib: PNG, SVG and CSV."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tamis.web.chart import COLOURS, Plot

SIZE = (7.2, 3.6)
INK, GRID, ALARM = "#1f2328", "#e5e7eb", "#c2410c"


def draw_figure(plot: Plot) -> Figure:
    """Draw a plot."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for line in plot.lines:
        if not len(line):
            continue
        colour = COLOURS[line.colour % len(COLOURS)] if line.name else GRID
        if line.band:
            axes.fill_between(line.slots, *line.band, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            line.slots, line.values, color=colour, linewidth=1.8 if line.name else 1,
            linestyle="--" if line.dashed else "-", marker="o" if len(line) == 1 else None,
            drawstyle="steps-post" if line.steps else "default",
            label=plain(line.name) if line.name else None, zorder=2 if line.name else 1,
        )  # fmt: skip
    for mark in plot.marks:
        axes.axvline(mark.slot, color=ALARM, linewidth=1, linestyle=":")
        axes.annotate(
            plain(mark.text), (mark.slot, 1), xycoords=("data", "axes fraction"),
            color=ALARM, fontsize=7, rotation=90, va="top", ha="right",
        )  # fmt: skip
    axes.set_ylim(*plot.height)
    axes.set_xlabel("slot", color=INK)
    axes.set_ylabel("milliseconds" if plot.unit == "ms" else "share", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    if plot.named:
        axes.legend(frameon=False, fontsize=8, loc="best")
    return figure


def draw_svg(figure: Figure, salt: str) -> str:
    """Draw a figure, the same one always to the same bytes, on no ground of its own."""
    out = io.StringIO()
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG element to stand inside a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=130)


def save_files(plots: list[Plot], folder: Path) -> list[Path]:
    """Write every plot as PNG, SVG and CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for plot in plots:
        paths = [folder / f"{plot.name}.{ending}" for ending in ("png", "svg", "csv")]
        figure = draw_figure(plot)
        save_png(figure, paths[0])
        with rc_context({"svg.hashsalt": plot.name}):
            figure.savefig(paths[1], metadata={"Date": None})
        paths[2].write_text(plot.to_csv(), encoding="utf-8", newline="")
        written += paths
    return written


def plain(text: str, longest: int = 24) -> str:
    """Make of any text a short one that matplotlib takes for nothing but text."""
    letters = "".join(
        letter if letter.isascii() and letter.isprintable() else "?" for letter in text
    )
    cut = letters if len(letters) <= longest else letters[: longest - 1] + "~"
    return cut.replace("$", r"\$").lstrip("_") or "?"
