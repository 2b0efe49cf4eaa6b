"""The folder of the paper's figure 2: the figure, its numbers, and a verdict on its claims."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tamis.checkpoint import write_atomically
from tamis.lab.synthetic import Run, Settings, Summary, final, summarise
from tamis.web.svg import save_png

Runs = Mapping[str, Sequence[Run]]
Side = Literal["above", "level", "below"]

LOW, HIGH = "ITLM, keep 0.1", "ITLM, keep 0.9"
DRAWN = ("naive", LOW, HIGH, "OGRS")
TICKS = (-5, 0, 5)
PLAIN: dict[str, Any] = {"frameon": False, "fontsize": 11}
POINTS: dict[str, Any] = {"s": 16, "depthshade": False}
CLEAN, WRONG = "#2b7a78", "#d1495b"
STYLES = (
    ("#8a8f98", "-"), ("#e9a23b", "-"), ("#c2661a", "--"), ("#8c3b0c", ":"),
    ("#1f6feb", "-"), ("#7aa7f0", "--"), ("#2f9e64", "-"),
)  # fmt: skip


class Claim(NamedTuple):
    """A claim of the paper about two methods, and its verdict by where the first ends."""

    one: str
    other: str
    text: str
    verdicts: dict[Side, str]


CLAIMS = (
    Claim(
        "OGRS",
        LOW,
        "that OGRS matches it",
        {"above": "holds, and more", "level": "is not refuted", "below": "does not hold"},
    ),
    Claim(
        HIGH,
        "naive",
        "that ITLM with a wrong ratio falls below naive training",
        {"above": "does not hold", "level": "is not borne out", "below": "holds"},
    ),
    Claim(
        "OGRS",
        "naive",
        "that OGRS does better",
        {"above": "holds", "level": "is not borne out", "below": "does not hold"},
    ),
)


def write_synthetic(settings: Settings, runs: Runs, folder: Path) -> list[str]:
    """Write figure2.png, numbers.csv and findings.txt, and return the findings."""
    lines = findings(settings, runs)
    write_numbers(summaries(runs), folder / "numbers.csv")
    write_atomically(folder / "findings.txt", "\n".join([*lines, ""]).encode())
    save_png(draw_figure(settings, runs), folder / "figure2.png")
    return lines


def summaries(runs: Runs) -> list[Summary]:
    """Sum up every method."""
    return [summarise(method, of_seeds) for method, of_seeds in runs.items()]


def write_numbers(rows: Sequence[Summary], path: Path) -> None:
    """Write one line a method; a share that a method does not have stays empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(field.name for field in fields(Summary))
    for row in rows:
        writer.writerow(round(v, 4) if isinstance(v, float) else v for v in astuple(row))
    write_atomically(path, out.getvalue().encode())


class Gap(NamedTuple):
    """How many points one method ends above another, and two standard errors of that."""

    points: float
    error: float

    @property
    def side(self) -> Side:
        """Return how the first method compares, as far as the seeds allow."""
        if abs(self.points) <= self.error:
            return "level"
        return "above" if self.points > 0 else "below"


def gap_between(one: Sequence[Run], other: Sequence[Run]) -> Gap:
    """Compare final accuracies seed by seed: both methods had the same data, noise and start."""
    points = 100 * (final(one) - final(other))
    return Gap(float(points.mean()), float(2 * points.std(ddof=1) / np.sqrt(len(points))))


def findings(settings: Settings, runs: Runs) -> list[str]:
    """Hold the paper's claims about its figure 2 against the numbers."""
    ends = {method: final(of_seeds).mean() for method, of_seeds in runs.items()}
    best = max((method for method in ends if method != "oracle"), key=lambda method: ends[method])
    return [
        f"The oracle ends at {ends['oracle']:.3f}. Best of the others is {best} with "
        f"{ends[best]:.3f}; the paper names {LOW}, which has {ends[LOW]:.3f}.",
        *(judge_claim(claim, runs) for claim in CLAIMS),
        judge_warm_up(settings, runs),
    ]


def judge_claim(claim: Claim, runs: Runs) -> str:
    """Return whether a claim holds over these seeds."""
    gap = gap_between(runs[claim.one], runs[claim.other])
    return (
        f"{claim.one} ends {abs(gap.points):.1f} points "
        f"{'above' if gap.points >= 0 else 'below'} {claim.other} (give or take {gap.error:.1f}, "
        f"two standard errors over {len(runs[claim.one])} seeds): the paper's claim {claim.text} "
        f"{claim.verdicts[gap.side]}."
    )


def judge_warm_up(settings: Settings, runs: Runs) -> str:
    """Return what the methods start from: trimming by losses is as good as the first model."""
    first = runs["naive"]
    begins = at_slot(first, settings.warm_up)
    blind = begins <= 0.5
    text = (
        f"The warm-up leaves {begins.mean():.3f}, and in {blind.sum()} of {len(begins)} seeds no "
        "better than random"
    )
    if not 0 < blind.sum() < len(begins):
        return f"{text}."
    ends = final(runs["OGRS"])
    return (
        f"{text}; OGRS ends at {ends[blind].mean():.3f} in those, "
        f"at {ends[~blind].mean():.3f} in the others."
    )


def at_slot(runs: Sequence[Run], slots: int) -> np.ndarray:
    """Accuracy of the model as it is after so many slots, one entry a seed."""
    return np.array([run.accuracy[run.tested.index(slots)].raw for run in runs])


def draw_figure(settings: Settings, runs: Runs) -> Figure:
    """Four methods' losses over the two features, and every method's accuracy over slots."""
    figure = Figure(figsize=(15, 8))
    for place, method in enumerate(DRAWN):
        row, column = divmod(place, 2)
        corner = (0.025 + 0.27 * column, 0.46 - 0.46 * row, 0.26, 0.45)
        axes = figure.add_axes(corner, projection="3d", elev=14, azim=30)
        draw_losses(axes, method, runs[method][0])
    kinds = [
        Line2D([], [], color=CLEAN, marker="o", linestyle="", label="right label"),
        Line2D([], [], color=WRONG, marker="^", linestyle="", label="wrong label"),
    ]
    figure.legend(handles=kinds, loc="upper left", bbox_to_anchor=(0.36, 0.994), ncols=2, **PLAIN)
    heading = f"Test accuracy: mean and standard deviation, {len(runs['naive'])} seeds"
    for left, text in ((0.02, "Loss of every training row at the end, seed 0"), (0.6, heading)):
        figure.text(left, 0.963, text, size=13, weight="bold")
    draw_accuracy(figure.add_axes((0.6, 0.185, 0.385, 0.74)), settings, runs)
    return figure


def draw_losses(axes: Axes, method: str, run: Run) -> None:
    """Loss of every row held, right labels apart from wrong ones."""
    clean = np.asarray(run.held.clean)
    for rows, colour, shape in ((clean, CLEAN, "o"), (~clean, WRONG, "^")):
        x, y = np.asarray(run.held.inputs)[rows].T
        losses = np.asarray(run.losses)[rows]
        axes.scatter(x, y, losses, c=colour, marker=shape, alpha=0.75, linewidths=0, **POINTS)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", zlabel="loss", xticks=TICKS, yticks=TICKS)
    axes.tick_params(labelsize=8)
    axes.set_title(
        f"{method}\nwrong label, larger loss: {run.separation:.0%} of pairs", size=11, y=0.97
    )


def draw_accuracy(axes: Axes, settings: Settings, runs: Runs) -> None:
    """Mean over seeds with its band, and in the margin where every method ends."""
    last = settings.slots
    axes.axvspan(0, settings.warm_up, color="#f4f4f4", zorder=0)
    for place, ((colour, line), (method, of_seeds)) in enumerate(
        zip(STYLES, runs.items(), strict=True)
    ):
        slots = np.array(of_seeds[0].tested)
        raw = np.array([[accuracy.raw for accuracy in run.accuracy] for run in of_seeds])
        middle, band = raw.mean(axis=0), raw.std(axis=0, ddof=1)
        own = slots >= (settings.warm_up if place else 0)  # identical warm-ups: drawn once
        edges = (middle - band)[own], (middle + band)[own]
        axes.fill_between(slots[own], *edges, color=colour, alpha=0.06, linewidth=0)
        for edge in edges:
            axes.plot(slots[own], edge, line, color=colour, linewidth=0.7, alpha=0.5)
        axes.plot(slots[own], middle[own], line, color=colour, linewidth=2.2, label=method)
        axes.errorbar(
            last * (1.02 + 0.02 * place), middle[-1], band[-1], fmt="o", color=colour, capsize=2.5
        )
    axes.axvline(last, color="#cccccc", linewidth=0.8)
    axes.set(xlabel="slot (grey: warm-up; right margin: the end)", xlim=(0, 1.16 * last))
    axes.set_xticks(np.linspace(0, last, 9))
    axes.grid(axis="y", color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.47, -0.09), ncols=3, **PLAIN)
