"""The regret's folder: one figure, the numbers behind it, and a sentence on each case."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tamis.checkpoint import write_atomically
from tamis.lab.regret import DEFAULT, LIMITED, RANDOM, UNLIMITED, Growth, Result, Settings
from tamis.lab.regret_measures import Exponent
from tamis.web.svg import save_png

COLOURS = {LIMITED: "#1f6feb", UNLIMITED: "#d9822b", DEFAULT: "#2f9e64", RANDOM: "#8a8f98"}
MARKERS = {LIMITED: "o", UNLIMITED: "s", DEFAULT: "^", RANDOM: "x"}
SQRT, BETWEEN = 0.5, 0.75
"""The power that is claimed, and halfway from it to the 1 of M."""


def write_regret(settings: Settings, results: Sequence[Result], folder: Path) -> Path:
    """Write the figure and the tables, and return the figure's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "numbers.csv", numbers(settings, results))
    write_table(folder / "exponents.csv", exponents(results))
    save_png(draw_regret(settings, results), folder / "regret.png")
    return folder / "regret.png"


def finding(settings: Settings, results: Sequence[Result]) -> str:
    """Return a sentence about how the regrets of one case grow.

    Judged by late growth, since a claim of O(sqrt(M)) is one about many steps.
    """
    of = {result.way: result for result in results}
    limited, random = of[LIMITED], of[RANDOM].lagrangian.late
    holds = "holds" if limited.slater else "does not always hold"
    return (
        f"{limited.case}: with zeta > 0, where Slater's condition {holds}, the Lagrangian regret"
        f" grows as M^{limited.lagrangian.late} from M = {settings.late} on,"
        f" {nearer(limited.lagrangian.late)}; that of random rows, which look for nothing,"
        f" as M^{random}, {nearer(random)}; the local regret, where gradients cannot cancel,"
        f" as M^{limited.local.late}, {nearer(limited.local.late)}."
    )


def nearer(exponent: Exponent) -> str:
    """Return which of the two powers is nearer, if the interval excludes the other."""
    if exponent.high <= SQRT:
        return "no faster than sqrt(M)"
    if exponent.high < BETWEEN:
        return "nearer sqrt(M) than M" + (", but faster" if exponent.low > SQRT else "")
    return "nearer M than sqrt(M)" if exponent.low > BETWEEN else "too near to halfway to decide"


def numbers(settings: Settings, results: Iterable[Result]) -> list[list[object]]:
    """List what was measured at every number of steps."""
    head = ["data", "setting", "steps", "lagrangian_regret", "local_regret"]
    rows: list[list[object]] = [[*head, "stayed", "highest_price", "lowest_bound"]]
    for result in results:
        columns = (
            result.lagrangian.mean,
            result.local.mean,
            result.stayed,
            result.price,
            result.bound,
        )
        for steps, *values in zip(
            settings.steps, *(column.tolist() for column in columns), strict=True
        ):
            rows.append([result.case, result.way, steps, *(f"{value:.6g}" for value in values)])
    return rows


def exponents(results: Iterable[Result]) -> list[list[object]]:
    """List the fitted powers."""
    rows: list[list[object]] = [["data", "setting", "regret", "steps", "exponent", "low", "high"]]
    for result in results:
        for name, growth in (("lagrangian", result.lagrangian), ("local", result.local)):
            for span, fitted in (("all", growth.all), ("late", growth.late)):
                values = (f"{value:.4f}" for value in fitted)
                rows.append([result.case, result.way, name, span, *values])
    return rows


def write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_atomically(path, out.getvalue().encode())


def draw_regret(settings: Settings, results: Sequence[Result]) -> Figure:
    """Both regrets over M and the price over steps, a column for each case."""
    chains = f"{settings.seeds} seeds with {settings.chains} chains each"
    cases = list(dict.fromkeys(result.case for result in results))
    figure = Figure(figsize=(4.4 * len(cases), 11), layout="constrained")
    figure.suptitle(f"Regret and price over the steps of a chain: {chains}", fontsize=11)
    for case, column in zip(cases, figure.subplots(3, len(cases), squeeze=False).T, strict=True):
        top, middle, bottom = column
        of_case = [result for result in results if result.case == case]
        top.set_title(case, fontweight="bold")
        draw_growth(top, settings, {result.way: result.lagrangian for result in of_case})
        draw_growth(middle, settings, {result.way: result.local for result in of_case})
        draw_price(bottom, settings, {result.way: result for result in of_case})
        if case == cases[0]:
            top.set_ylabel("Lagrangian regret, |sum of gradients|")
            middle.set_ylabel("local regret, sum of |gradient|²")
            bottom.set_ylabel("highest price of any chain")
    return figure


def draw_growth(axes: Axes, settings: Settings, growths: dict[str, Growth]) -> None:
    """Mean regrets over M, the line fitted to each, and two to compare with."""
    steps = np.array(settings.steps, float)
    first = next(iter(growths.values())).mean[0].item()
    for power, name in ((0.5, "sqrt(M)"), (1.0, "M")):
        axes.plot(steps, first * steps**power, color="#bbbbbb", linestyle="--", linewidth=1)
        axes.annotate(
            name, (steps[-1], first * steps[-1] ** power), (4, 0), textcoords="offset points",
            fontsize=8, color="#888888", va="center", annotation_clip=False,
        )  # fmt: skip
    for way, growth in growths.items():
        mean = growth.mean.numpy()
        label = f"{way}:  {growth.all}; {growth.late}"
        axes.plot(
            steps, mean, MARKERS[way], color=COLOURS[way], markersize=4.5, fillstyle="none",
            label=label,
        )  # fmt: skip
        middle = np.exp(np.log(mean).mean() - growth.all.value * np.log(steps).mean())
        axes.plot(steps, middle * steps**growth.all.value, color=COLOURS[way], linewidth=1.2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(steps, [f"{step:g}" for step in steps])
    axes.minorticks_off()
    axes.set_xlabel("steps M")
    below, above = axes.get_ylim()
    axes.set_ylim(below, above * (above / below) ** 0.42)  # room for the legend
    finish(axes, title=f"power of M (95% interval): all M; M from {settings.late} on")


def draw_price(axes: Axes, settings: Settings, results: dict[str, Result]) -> None:
    """Highest prices after every step of the longest walk, and lemma 2's bound."""
    limited, unlimited = results[LIMITED], results[UNLIMITED]
    for result, name in (
        (unlimited, "zeta = 0: Slater's condition fails, no bound"),
        (limited, f"zeta = {settings.max_uses:g}"),
    ):
        path = result.path.numpy()
        axes.plot(np.arange(1, len(path) + 1), path, color=COLOURS[result.way], label=name)
    bound = limited.bound[-1].item()
    if np.isfinite(bound):
        axes.axhline(
            bound, color=COLOURS[LIMITED], linestyle=":", label=f"lemma 2's bound, {bound:.1f}"
        )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 30 * max(1.0, unlimited.path.max().item()))  # room for the legend
    axes.set_xlabel(f"step, of M = {settings.steps[-1]}")
    finish(axes, title="price mu")


def finish(axes: Axes, title: str) -> None:
    """Add legend and grid to axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.legend(
        frameon=False, fontsize=7.5, loc="upper left", title=title, title_fontsize=8,
        alignment="left",
    )  # fmt: skip
