"""How well scores are calibrated, as tables of means and as a reliability plot."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

from tamis.lab.score_quality import CALIBRATED, RAW, Bin, Cell, Measured

GREY, COLOURS = "#7d8590", {RAW: "#d29922", CALIBRATED: "#2f81f7"}
SHARES = ("ece", "ece_mass", "brier", "average_precision")
COUNTS = ("wrong", "expected", "suspects")


def ambiguous(cell: Cell) -> bool:
    """Return whether nothing reveals the truth: a class has another label as often as its own."""
    return cell.noise == "pair" and cell.clean_ratio <= 0.5


def page_of(lines: Sequence[Measured], board: Sequence[str]) -> str:
    """Return the cells of the board, then the tables, each with means over seeds."""
    parts = []
    for title, chosen in (
        ("Cells of the board", [line for line in lines if line.data in board]),
        ("Tables", [line for line in lines if line.data not in board]),
    ):
        if chosen:
            seeds = len({line.seed for line in chosen})
            parts += [f"{title}, mean over {seeds} seed{'s' * (seeds > 1)}:", table_of(chosen)]
    return "\n\n".join(parts)


def table_of(lines: Sequence[Measured]) -> str:
    """Return a Markdown table of cells: before calibration / after."""
    head = (
        "data", "noise", "clean ratio", "error", "error, equal mass", "Brier score",
        "average precision", "wrong labels", "expected", "suspects", "rows at 1.0000",
    )  # fmt: skip
    found = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for place in dict.fromkeys((line.data, line.noise, line.clean_ratio) for line in lines):
        cell = [line for line in lines if (line.data, line.noise, line.clean_ratio) == place]
        texts = [place[0], place[1], f"{place[2]:g}"]
        texts += [both(cell, name, ".3f") for name in SHARES]
        texts += [average(cell, CALIBRATED, name, ",.0f") for name in COUNTS]
        found.append("| " + " | ".join([*texts, both(cell, "extreme", ",.0f")]) + " |")
    return "\n".join(found)


def both(lines: Sequence[Measured], name: str, form: str) -> str:
    """Return the mean of a number before calibration / after."""
    return f"{average(lines, RAW, name, form)} / {average(lines, CALIBRATED, name, form)}"


def average(lines: Sequence[Measured], kind: str, name: str, form: str) -> str:
    """Return the mean of a number over the lines of a kind."""
    return format(mean(getattr(line, name) for line in lines if line.kind == kind), form)


def draw_reliability(bins: Sequence[Bin], board: Sequence[str]) -> Figure:
    """Draw the share of wrong labels against the score, a panel for each data set of the board.

    All rows of a data set are pooled, but for ambiguous cells. The last panel has the tables.
    """
    groups: dict[str, list[Bin]] = {}
    for part in bins:
        if not ambiguous(part):
            groups.setdefault(part.data if part.data in board else "tables", []).append(part)
    size = (3.4 * len(groups), 3.4)
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    for axes, (title, parts) in zip(
        figure.subplots(1, len(groups), squeeze=False).flat, groups.items(), strict=True
    ):
        axes.plot((0, 1), (0, 1), color=GREY, linewidth=0.8, linestyle=":")
        for kind, colour in COLOURS.items():
            points = pooled([part for part in parts if part.kind == kind])
            axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=3, label=kind)
        axes.set_title(title, color=GREY, fontsize=10)
        axes.set_xlabel("score", color=GREY, fontsize=8)
        axes.tick_params(colors=GREY, labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
    figure.axes[0].set_ylabel("share of wrong labels", color=GREY, fontsize=8)
    figure.axes[0].legend(frameon=False, fontsize=8, labelcolor=GREY)
    return figure


def pooled(bins: Sequence[Bin]) -> list[tuple[float, float]]:
    """Return the mean score and the share of wrong labels of each bin, over all cells."""
    points = []
    for number in sorted({part.number for part in bins}):
        parts = [part for part in bins if part.number == number]
        rows = sum(part.rows for part in parts)
        score = sum(part.rows * part.score for part in parts) / rows
        points.append((score, sum(part.rows * part.wrong for part in parts) / rows))
    return points
