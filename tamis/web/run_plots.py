"""The plots of runs, each with the numbers behind it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tamis.runs import AlarmRecord, EstimatePoint, History, Run
from tamis.runs.spreadsheet import disarm

SIZE = (7.2, 3.4)
INK, GRID = "#1f2328", "#e5e7eb"
COLOURS = ("#1f6feb", "#d9822b", "#2f9e64", "#b45f9a", "#8a8f98", "#b7950b")
TRUE = "#5f8f4e"
HELD = COLOURS[1]
ALARM = "#c2410c"
Curve = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Plot:
    """A figure, drawn on demand, with a caption and its numbers as columns."""

    name: str
    title: str
    caption: str
    columns: Mapping[str, Sequence[object]]
    draw: Callable[[], Figure]

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


def plots_of(runs: Mapping[str, Run]) -> list[Plot]:
    """Return the plots of one run, or of several in the same axes, without empty ones.

    Their numbers are fixed now: they may be drawn later, while the runs are refreshed.
    """
    plots = [
        curves(
            runs,
            "accuracy",
            "Accuracy on test data",
            "Share of test labels that the model predicts.",
            {
                "averaged weights": lambda history: history.measured("accuracy_ema"),
                "weights as they are": lambda history: history.measured("accuracy"),
            },
        ),
        curves(
            runs,
            "purity",
            "Purity and coverage",
            "Purity: share of picks whose label is right, where that is known. Coverage: share of "
            "held rows that were ever picked.",
            {
                "purity": lambda history: history.smooth("purity"),
                "coverage": lambda history: history.smooth("coverage"),
            },
        ),
        clean_ratio(runs),
        curves(
            runs,
            "agreement",
            "Agreement: labels predicted before they were learned from",
            "Share of arriving labels that are the model's first choice.",
            {"agreement": lambda history: history.smooth("agreement")},
        ),
        curves(
            runs,
            "labelled",
            "Labelled rows",
            "Share of the rows that came which have, or had, a label. The others wait for theirs, "
            "or have left without one.",
            {"labelled": lambda history: unless_all(history.smooth("labelled"))},
        ),
        curves(
            runs,
            "speed",
            "Speed",
            "Milliseconds a slot, and of those spent on picking.",
            {
                "slot": lambda history: in_milliseconds(history.smooth("seconds")),
                "picking": lambda history: in_milliseconds(history.smooth("select_seconds")),
            },
            share=False,
        ),
    ]
    if len(runs) == 1:
        plots += [plot(next(iter(runs.values()))) for plot in (by_class, annotators)]
    return [plot for plot in plots if any(len(column) for column in plot.columns.values())]


def unless_all(curve: Curve) -> Curve:
    """Return shares over slots; nothing where they are 1 throughout."""
    return (curve[0][:0], curve[1][:0]) if (curve[1] == 1).all() else curve


def in_milliseconds(curve: Curve) -> Curve:
    """Turn seconds into milliseconds."""
    return curve[0], 1000 * curve[1]


def curves(
    runs: Mapping[str, Run],
    name: str,
    title: str,
    caption: str,
    series: Mapping[str, Callable[[History], Curve]],
    share: bool = True,
) -> Plot:
    """Draw some columns over slots: the first thick, the others thin; alarms as marks."""
    found = {
        (run_name, label): read(run.history)
        for run_name, run in runs.items()
        for label, read in series.items()
    }

    alarms = alarms_of(runs)

    def draw() -> Figure:
        figure, axes = blank()
        for at, run_name in enumerate(runs):
            for order, label in enumerate(series):
                slots, values = found[run_name, label]
                if not len(slots):
                    continue
                colour = COLOURS[(at if len(runs) > 1 else order) % len(COLOURS)]
                thin = order > 0 and len(runs) > 1
                axes.plot(
                    slots, values, color=colour, linewidth=0.9 if thin else 1.8,
                    linestyle="--" if thin else "-", label=label if len(runs) == 1 else None,
                    marker="o" if len(slots) == 1 else None,
                )  # fmt: skip
        finish(axes, alarms, share)
        return figure

    return Plot(name, title, caption, columns_of(found, len(runs) > 1), draw)


def clean_ratio(runs: Mapping[str, Run]) -> Plot:
    """Draw the clean ratio as it was estimated, with its band, and as it was where it is known."""
    points = {name: list(run.estimates.points) for name, run in runs.items()}
    alarms = alarms_of(runs)

    def draw() -> Figure:
        figure, axes = blank()
        for at, (_, run_points) in enumerate(points.items()):
            if not run_points:
                continue
            slots = [point.slot for point in run_points]
            colour = COLOURS[at % len(COLOURS)]
            low, high = ([getattr(point, side) for point in run_points] for side in ("low", "high"))
            alone = len(runs) == 1
            axes.fill_between(
                slots, low, high, color=colour, alpha=0.18, linewidth=0,
                label="90% band" if alone else None,
            )  # fmt: skip
            values = [point.value for point in run_points]
            axes.plot(slots, values, color=colour, label="estimated" if alone else None)
            held = [(point.slot, *point.held) for point in run_points if point.held is not None]
            if held and alone:
                slots, values, low, high = (list(part) for part in zip(*held, strict=True))
                axes.fill_between(slots, low, high, color=HELD, alpha=0.12, linewidth=0)
                axes.plot(slots, values, color=HELD, linestyle="--", label="of the rows held")
            true = [(point.slot, point.true) for point in run_points if point.true is not None]
            if true:
                axes.plot(
                    *zip(*true, strict=True), color=TRUE, linewidth=1.2, drawstyle="steps-mid",
                    label="true" if alone else None,
                )  # fmt: skip
        finish(axes, alarms)
        return figure

    rows = [(name, point) for name, run_points in points.items() for point in run_points]
    columns: dict[str, list[object]] = {"run": [name for name, _ in rows]} if len(runs) > 1 else {}
    for part in ("slot", "value", "low", "high", "true"):
        columns[part] = [getattr(point, part) for _, point in rows]
    for at, part in enumerate(("held", "held_low", "held_high")):
        columns[part] = [point.held[at] if point.held else None for _, point in rows]
    caption = (
        "Share of arriving labels that are right, as the tracker estimates it, with a 90% band;"
        " dashed: of the rows held, as the rule takes it to be."
    )
    return Plot("clean_ratio", "Clean ratio of what arrives", caption, columns, draw)


def by_class(run: Run) -> Plot:
    """Draw the clean ratio of each given label, the least right ones named."""
    points = [point for point in run.estimates.points if point.by_class]
    classes = run.classes
    last = [share for share in (points[-1].by_class or ()) if share is not None] if points else []
    alarms = alarms_of({run.name: run})
    known = range(min(len(classes), len(points[-1].by_class or ()) if points else 0))
    worst = sorted(known, key=lambda label: share_of(points, label))[: len(COLOURS)]

    def draw() -> Figure:
        figure, axes = blank()
        for label in range(len(last)):
            slots, shares = shares_of_class(points, label)
            if label in worst:
                colour = COLOURS[worst.index(label)]
                axes.plot(slots, shares, color=colour, label=plain(classes[label]))
            else:
                axes.plot(slots, shares, color=GRID, linewidth=1, zorder=0)
        finish(axes, alarms)
        return figure

    columns: dict[str, list[object]] = {"slot": [point.slot for point in points]}
    for label, name in enumerate(classes):
        columns[f"label {name}"] = [
            (point.by_class or ())[label] if label < len(point.by_class or ()) else None
            for point in points
        ]
    caption = "Share of right labels among those given, for each label; the least right are named."
    return Plot("by_class", "Clean ratio by given label", caption, columns, draw)


def annotators(run: Run) -> Plot:
    """Draw the accuracy of annotators: of the worst by name, of the others without."""
    newest = run.annotators.newest
    names = [one.name for one in newest.annotators] if newest else []
    found = {name: run.annotators.accuracies(name) for name in names}
    alarms = alarms_of({run.name: run})

    def draw() -> Figure:
        figure, axes = blank()
        for at, (name, (slots, values)) in enumerate(found.items()):
            marker = "o" if len(slots) == 1 else None
            if at < len(COLOURS):
                axes.plot(slots, values, color=COLOURS[at], label=plain(name), marker=marker)
            else:
                axes.plot(slots, values, color=GRID, linewidth=1, zorder=0, marker=marker)
        finish(axes, alarms)
        return figure

    columns: dict[str, list[object]] = {"annotator": [], "slot": [], "accuracy": []}
    for name, (slots, values) in found.items():
        columns["annotator"] += [name] * len(slots)
        columns["slot"] += slots
        columns["accuracy"] += values
    caption = "Share of an annotator's labels that are right, as estimated; the worst are named."
    return Plot("annotators", "Accuracy of annotators", caption, columns, draw)


def shares_of_class(points: Sequence[EstimatePoint], label: int) -> tuple[list[int], list[float]]:
    """Return the slots where the clean ratio of a label is known, and what it is there."""
    found = [
        (point.slot, share)
        for point in points
        if point.by_class and label < len(point.by_class)
        if (share := point.by_class[label]) is not None
    ]
    return [slot for slot, _ in found], [share for _, share in found]


def share_of(points: Sequence[EstimatePoint], label: int) -> float:
    """Return the newest clean ratio of a label, 1 where none is known."""
    shares = shares_of_class(points, label)[1]
    return shares[-1] if shares else 1.0


def blank() -> tuple[Figure, Axes]:
    """Return a figure with empty axes over slots."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
    axes.set_xlabel("slot", color=INK)
    axes.spines[:].set_color(INK)
    return figure, axes


def alarms_of(runs: Mapping[str, Run]) -> list[AlarmRecord]:
    """Return the alarms to mark: those of a run that stands alone."""
    return [alarm for run in runs.values() for alarm in run.estimates.alarms if len(runs) == 1]


def finish(axes: Axes, alarms: Sequence[AlarmRecord], share: bool = True) -> None:
    """Mark alarms, set the limits, and name the curves."""
    mark(axes, alarms)
    if share:
        axes.set_ylim(0, 1.02)
    else:
        axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        legend = axes.legend(frameon=False, fontsize=8, loc="best")
        for text in legend.get_texts():
            text.set_color(INK)


def mark(axes: Axes, alarms: Iterable[AlarmRecord]) -> None:
    """Draw alarms as marks across."""
    for alarm in alarms:
        axes.axvline(alarm.slot, color=ALARM, linewidth=1, linestyle=":")
        axes.annotate(
            plain(alarm.subject or alarm.kind), (alarm.slot, 1), xycoords=("data", "axes fraction"),
            color=ALARM, fontsize=7, rotation=90, va="top", ha="right",
        )  # fmt: skip


def columns_of(found: Mapping[tuple[str, str], Curve], several: bool) -> dict[str, list[object]]:
    """Put curves into columns: one line for each run, curve and slot."""
    columns: dict[str, list[object]] = {"run": []} if several else {}
    columns |= {"curve": [], "slot": [], "value": []}
    for (run_name, label), (slots, values) in found.items():
        if several:
            columns["run"] += [run_name] * len(slots)
        columns["curve"] += [label] * len(slots)
        columns["slot"] += slots.tolist()
        columns["value"] += values.tolist()
    return columns


def plain(text: str, longest: int = 16) -> str:
    """Make of any text a short one that matplotlib takes for nothing but text."""
    letters = "".join(
        letter if letter.isascii() and letter.isprintable() else "?" for letter in text
    )
    cut = letters if len(letters) <= longest else letters[: longest - 1] + "~"
    return cut.replace("$", r"\$").lstrip("_") or "?"
