"""The first page that a stranger reads: its picture, and its numbers from results that are kept."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from matplotlib.figure import Figure

from tamis.checkpoint import write_atomically
from tamis.lab.pages.markdown import put_between, read_page, share
from tamis.lab.pages.tables_page import (
    FINDERS,
    OWN,
    Line,
    accuracy,
    average,
    best_other,
    in_common,
    names,
    precision,
)
from tamis.web.svg import save_png

PART = "measured"
WRONG = (0.2, 0.4)
MOST_WRONG = WRONG[-1]
FEATURES = (
    ("trains a network while it picks rows", "yes", "no picks", "no", "small models", "no"),
    ("noise rate to set", "none", "-", "none", "-", "-"),
    ("endless streams in bounded memory", "yes", "by hand", "no", "yes", "no"),
    ("labels late, changed, withdrawn", "yes", "by hand", "no", "simulated delay", "no"),
    ("resumes bit for bit after a kill", "yes", "by hand", "-", "by hand", "-"),
    ("finds wrong labels", "yes", "no", "yes", "no", "yes"),
    ("review page, corrected table back", "yes", "no", "table", "no", "yes"),
    ("boxes, masks, tokens, several labels", "no", "yes", "yes", "no", "boxes, masks"),
    ("numeric targets", "no", "yes", "yes", "yes", "no"),
    ("works with any model's predictions", "no", "-", "yes", "-", "yes"),
)
"""What each tool does, as its documentation has it in November 2026."""
PLAIN = "MLP"
CLEANLAB = FINDERS[1:]
OWN_COLOUR, OTHER_COLOUR = "#1f6feb", "#8a8f98"
DARK = {"text": "#e6e8eb", "ground": "#131416", "lines": "#3a3f45"}
LIGHT = {"text": "#1c1e21", "ground": "#ffffff", "lines": "#e1e4e8"}
PANELS = (
    ("accuracy, 40% of labels wrong", accuracy, "best of four in scikit-learn"),
    ("wrong labels found, 40% wrong", precision, "cleanlab"),
)


class Drift(NamedTuple):
    """Accuracy at the end of a stream whose clean ratio fell, of our rule and of naive training."""

    ours: float
    naive: float


class Kills(NamedTuple):
    """Runs killed with -9 at random moments, and how many of them ended as the unbroken one."""

    trials: int
    passed: int


def write_front(lines: Sequence[Line], results: Path, folder: Path) -> None:
    """Write the pictures into results/tables, and the numbers into a folder's README and site."""
    readme, index = folder / "README.md", folder / "docs" / "index.md"
    lines = in_common(lines)
    for scheme, colours in (("", LIGHT), ("-dark", DARK)):
        for width, phone in (("", False), ("-narrow", True)):
            picture = results / "tables" / f"wrong-labels{width}{scheme}.png"
            save_png(draw(lines, colours, phone=phone), picture)
    drift, kills = read_drift(results), read_kills(results)
    for page, text in ((readme, peers(lines)), (index, cards(lines, drift, kills))):
        write_atomically(page, put_between(read_page(page, PART), text, PART).encode())


def read_drift(results: Path, ratio: float = 0.5) -> Drift:
    """Return the means over seeds of MNIST whose clean ratio falls from .9 to another."""
    with (results / "plausible" / "drift.csv").open(newline="") as file:
        runs = [run for run in csv.DictReader(file) if float(run["clean_ratio"]) == ratio]
    ends = (
        mean(float(run["accuracy_ema"]) for run in runs if run["method"] == method)
        for method in ("Plausible", "naive")
    )
    return Drift(*ends)


def read_kills(results: Path) -> Kills:
    """Return the first line of the fault matrix."""
    with (results / "reliability" / "results.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["fault"].startswith("kill -9"))
    return Kills(int(row["trials"]), int(row["passed"]))


def draw(lines: Sequence[Line], colours: dict[str, str], *, phone: bool = False) -> Figure:
    """Draw each table as a line from the best other tool to tamis, with the gap in between.

    For a phone, the panels stand one above the other.
    """

    def reached(table: str) -> float:
        return average(of(lines, table), OWN, MOST_WRONG, accuracy)

    tables = sorted(names(lines, "table"), key=reached)
    size, panels = ((4.4, 8.4), (2, 1)) if phone else ((9.6, 4.6), (1, 2))
    figure = Figure(figsize=size, layout="constrained", facecolor=colours["ground"])
    rivals = ([name for name in names(lines) if name != OWN], CLEANLAB)
    for axes, (title, get, other), against in zip(
        figure.subplots(*panels, sharey=True), PANELS, rivals, strict=True
    ):
        for place, table in enumerate(tables):
            mine = of(lines, table)
            ours = average(mine, OWN, MOST_WRONG, get)
            _, theirs = best_other(mine, against, MOST_WRONG, get)
            axes.plot([theirs, ours], [place, place], color=colours["lines"], linewidth=3, zorder=1)
            for value, colour, label in ((theirs, OTHER_COLOUR, other), (ours, OWN_COLOUR, OWN)):
                axes.scatter([value], [place], color=colour, s=42, label=None if place else label)
        axes.set_title(title, fontsize=11, color=colours["text"])
        axes.set_facecolor(colours["ground"])
        axes.set_yticks(range(len(tables)), tables)
        axes.tick_params(colors=colours["text"], labelsize=9, length=0)
        axes.spines[:].set_visible(False)
        axes.grid(axis="x", color=colours["lines"])
        axes.set_axisbelow(True)
        legend = axes.legend(frameon=False, fontsize=9, loc="lower right")
        for text in legend.get_texts():
            text.set_color(colours["text"])
    return figure


def of(lines: Sequence[Line], table: str) -> list[Line]:
    """Return the lines of one table."""
    return [line for line in lines if line.cell.table == table]


def behind(lines: Sequence[Line], wrong: float) -> list[str]:
    """Return the tables on which the best other model is more accurate than tamis."""
    others = [name for name in names(lines) if name != OWN]
    found = []
    for table in sorted(names(lines, "table")):
        mine = of(lines, table)
        if best_other(mine, others, wrong, accuracy)[1] > average(mine, OWN, wrong, accuracy):
            found.append(table)
    return found


def peers(lines: Sequence[Line]) -> str:
    """Return the table of the README: what each tool does, what was measured, where tamis loses."""
    rows = [
        "| | tamis | plain training | cleanlab | River | FiftyOne |",
        f"|{' --- |' * 6}",
        *(f"| {' | '.join(row)} |" for row in FEATURES),
    ]
    for wrong in WRONG:
        mine, plain = (share(average(lines, name, wrong, accuracy)) for name in (OWN, PLAIN))
        rows.append(f"| accuracy, {wrong:.0%} of labels wrong | **{mine}** | {plain} | - | - | - |")
    for wrong in WRONG:
        mine = share(average(lines, OWN, wrong, precision))
        rival = share(max(average(lines, name, wrong, precision) for name in CLEANLAB))
        rows.append(f"| wrong labels found, {wrong:.0%} wrong | **{mine}** | - | {rival} | - | - |")
    spans = [span(lines, name) for name in (OWN, PLAIN)]
    rows.append(f"| processor seconds to train | {' | '.join(spans)} | - | - | - |")
    return "\n".join([*rows, "", losses(lines)])


def span(lines: Sequence[Line], method: str) -> str:
    """Return the shortest and the longest mean time to train, over tables."""
    times = [
        average(of(lines, table), method, None, lambda measured: measured.seconds)
        for table in names(lines, "table")
    ]
    return f"{min(times):.1f} to {max(times):.0f}"


def losses(lines: Sequence[Line]) -> str:
    """Return a sentence that names the tables on which another model is more accurate."""
    parts = []
    for wrong in WRONG:
        found = behind(lines, wrong)
        parts.append(f"{len(found)} with {wrong:.0%} wrong labels ({', '.join(found) or 'none'})")
    count = len(names(lines, "table"))
    return f"Of the {count} tables, another model is more accurate on {', and on '.join(parts)}."


def cards(lines: Sequence[Line], drift: Drift, kills: Kills) -> str:
    """Return the numbers of the site's front page, as a grid of cards."""
    others = [name for name in names(lines) if name != OWN]
    best = max(average(lines, name, MOST_WRONG, accuracy) for name in others)
    found = max(average(lines, name, MOST_WRONG, precision) for name in CLEANLAB)
    tables = len(names(lines, "table"))
    numbers = (
        (share(average(lines, OWN, MOST_WRONG, accuracy)), "compare",
         f"mean accuracy on {tables} tables with 40% wrong labels; next best model {share(best)}"),
        (share(average(lines, OWN, MOST_WRONG, precision)), "compare",
         f"average precision at finding these wrong labels; cleanlab {share(found)}"),
        (share(drift.ours), "methods/plausible",
         f"MNIST accuracy as correct labels fall from 90% to 50%; naive {share(drift.naive)}"),
        (f"{kills.passed} of {kills.trials}", "reliability",
         "runs killed at random moments and resumed end bit for bit like an unbroken run"),
    )  # fmt: skip
    text = ["::::{grid} 2 2 4 4", ":gutter: 2", ":class-container: numbers", ""]
    for number, page, what in numbers:
        text += [":::{grid-item-card} " + number, f":link: {page}", ":link-type: doc", what, ":::"]
    return "\n".join([*text, "::::"])
