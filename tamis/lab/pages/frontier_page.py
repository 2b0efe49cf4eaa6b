"""The frontier's tables and figure: accuracy at equal passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from tamis.checkpoint import write_atomically
from tamis.lab.frontier import BACKWARD, Point
from tamis.lab.pages.board_page import as_lines
from tamis.lab.pages.board_plot import GREY, SMALL
from tamis.lab.pages.board_tables import SIDE_INFORMATION, Spread
from tamis.lab.pages.markdown import escape, linked, put_between, read_page, share
from tamis.lab.scene import PLACES
from tamis.web.svg import save_png

PART = "frontier"
NONE = "nothing"


@dataclass(frozen=True)
class Panel:
    """All methods on one data set, under one kind of noise, at one clean ratio."""

    data: str
    noise: str
    clean_ratio: float
    budgets: tuple[float, ...]
    spreads: dict[tuple[str, float], Spread]

    @property
    def title(self) -> str:
        """Data set, noise and clean ratio."""
        return f"{self.data}, {self.noise} noise, clean ratio {self.clean_ratio:g}"

    @property
    def methods(self) -> list[str]:
        """Methods, the highest accuracy at the largest budget first."""
        last = self.budgets[-1]
        names = dict.fromkeys(method for method, _ in self.spreads)
        found = {name: self.spreads.get((name, last)) for name in names}
        return sorted(names, key=lambda name: -spread.mean if (spread := found[name]) else 1.0)

    def best(self, budget: float) -> str:
        """Return the method of highest accuracy at a budget, of those without side information."""
        here = {
            method: spread.mean
            for (method, at), spread in self.spreads.items()
            if at == budget and not SIDE_INFORMATION.get(method)
        }
        return max(here, key=lambda method: here[method], default="")


def panels(points: Sequence[Point]) -> list[Panel]:
    """Sum up the better accuracy over seeds, a panel for each place, noise and clean ratio."""
    where = dict.fromkeys((point.data, point.noise, point.clean_ratio) for point in points)
    found = []
    for data, noise, ratio in where:
        here = [p for p in points if (p.data, p.noise, p.clean_ratio) == (data, noise, ratio)]
        values: dict[tuple[str, float], list[float]] = {}
        for point in here:
            values.setdefault((point.method, point.budget), []).append(point.better)
        spreads = {at: Spread.of(each) for at, each in values.items()}
        budgets = tuple(sorted({point.budget for point in here}))
        found.append(Panel(data, noise, ratio, budgets, spreads))
    return found


def write_frontier(points: Sequence[Point], folder: Path, page: Path | None = None) -> str:
    """Write frontier.png, and the part of a Markdown page; return that part."""
    found = panels(points)
    save_png(draw(found), folder / f"{PART}.png")
    text = to_markdown(points, found, page or folder / f"{PART}.md")
    if page:
        write_atomically(page, put_between(read_page(page, PART), text, PART).encode())
    return text


def to_markdown(points: Sequence[Point], found: Sequence[Panel], page: Path) -> str:
    """Write the tables."""
    seeds = len({point.seed for point in points})
    places = "; ".join(
        f"{name}: {PLACES[name].k} picks a slot, at most {PLACES[name].held:,} rows held"
        for name in dict.fromkeys(point.data for point in points)
    )
    machines = "; ".join(dict.fromkeys(point.machine for point in points))
    lines = [
        f"Made on {machines}. Seeds: {seeds}. {places}.",
        "",
        "A column is a budget of forward-equivalents for each row held: a row passed forward"
        f" through a model counts 1, a backward pass {BACKWARD}. Passes are counted at the models,"
        " those of selection, of a second model and of preparations included; those of the test are"
        " not. A run is stopped by the slot that reaches the budget. Warm-ups are those of the"
        " board, so a small budget may be spent before a method begins to select. A cell is"
        " accuracy on clean test data, with averaged weights or without, whichever is higher: mean"
        " ± standard deviation over seeds, or one seed alone. Bold is the best of a column without"
        " side information.",
        "",
    ]
    for panel in found:
        lines += [f"## {escape(panel.title)}", "", *rows(panel, page), ""]
        lines += [escape(sentence(panel)), ""]
    return "\n".join(lines).rstrip()


def rows(panel: Panel, page: Path) -> list[str]:
    """Write a panel as a Markdown table."""
    table = [["method", *(f"{budget:g}" for budget in panel.budgets), "side information"]]
    leaders = {budget: panel.best(budget) for budget in panel.budgets}
    for method in panel.methods:
        line = [linked(method, page)]
        for budget in panel.budgets:
            cell = as_cell(panel.spreads.get((method, budget)))
            line.append(f"**{cell}**" if leaders[budget] == method else cell)
        table.append([*line, escape(SIDE_INFORMATION.get(method) or NONE)])
    return as_lines(table)


def as_cell(spread: Spread | None) -> str:
    """Write a mean and a deviation."""
    if spread is None:
        return "-"
    std = "" if spread.std != spread.std else f" ±{share(spread.std)}"
    return share(spread.mean) + std


def sentence(panel: Panel) -> str:
    """Return which method leads at each budget."""
    leaders = [f"{panel.best(budget)} at {budget:g}" for budget in panel.budgets]
    return f"The frontier: {', '.join(leaders)}."


def draw(found: Sequence[Panel]) -> Figure:
    """Draw accuracy over passes, a line a method."""
    columns = min(2, len(found))
    lines = -(-len(found) // columns)
    figure = Figure(figsize=(6.4 * columns, 4.6 * lines), layout="constrained", facecolor="none")
    places = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, panel in zip(places, found, strict=False):
        for number, method in enumerate(sorted(panel.methods)):
            at = [budget for budget in panel.budgets if (method, budget) in panel.spreads]
            means = [panel.spreads[method, budget].mean for budget in at]
            style = "--" if SIDE_INFORMATION.get(method) else "-"
            axes.plot(
                at, means, style, marker="o", markersize=3, linewidth=1.3, label=method,
                color=colormaps["tab20"](number % 20),
            )  # fmt: skip
        axes.set_title(panel.title, parse_math=False, color=GREY, fontsize=10)
        axes.set_xscale("log")
        axes.set_xticks(panel.budgets, [f"{budget:g}" for budget in panel.budgets])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("forward-equivalents for each row held", **SMALL)
        axes.set_ylabel("accuracy (dashed: with side information)", **SMALL)
        axes.tick_params(which="both", colors=GREY, labelsize=8)
        axes.set_facecolor("none")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
        axes.legend(fontsize=7, frameon=False, labelcolor=GREY)
    for axes in places[len(found) :]:
        axes.set_axis_off()
    return figure
