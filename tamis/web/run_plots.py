"""The plots of runs, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tamis.runs import EstimatePoint, History, Run
from tamis.web.chart import COLOURS, Curve, Line, Mark, Plot, thin

POINTS = 200
"""Means of a column that has a value at every slot."""
SERIES: Mapping[str, Callable[[History], Curve]] = {
    "averaged weights": lambda history: thin(history.measured("accuracy_ema")),
    "current weights": lambda history: thin(history.measured("accuracy")),
    "purity": lambda history: history.smooth("purity", POINTS),
    "coverage": lambda history: history.smooth("coverage", POINTS),
    "agreement": lambda history: history.smooth("agreement", POINTS),
    "labelled": lambda history: unless_all(history.smooth("labelled", POINTS)),
    "slot": lambda history: in_milliseconds(history.smooth("seconds", POINTS)),
    "picking": lambda history: in_milliseconds(history.smooth("select_seconds", POINTS)),
}
MEASURED = ("averaged weights", "current weights")
"""What is measured at some slots; the others are means over all."""


def plots_of(runs: Mapping[str, Run]) -> list[Plot]:
    """Return the plots of one run, or of several in the same axes, without empty ones.

    Their numbers are fixed now: they may be drawn later, while the runs are refreshed.
    """
    plots = [
        curves(
            runs,
            "accuracy",
            "Accuracy on test data",
            "Share of test rows that the model predicts correctly.",
            MEASURED,
            zoomed=True,
        ),
        curves(
            runs,
            "purity",
            "Purity and coverage",
            "Purity: share of picks whose label is right, where that is known. Coverage: share of "
            "held rows that were picked at least once.",
            ("purity", "coverage"),
            zoomed=True,
        ),
        clean_ratio(runs),
        curves(
            runs,
            "agreement",
            "Agreement with arriving labels",
            "Share of arriving labels that the model predicted before it learned from them.",
            ("agreement",),
        ),
        curves(
            runs,
            "labelled",
            "Labelled rows",
            "Share of the rows so far whose label has arrived. The others wait for theirs, or were "
            "removed without one.",
            ("labelled",),
        ),
        curves(
            runs,
            "speed",
            "Speed",
            "Milliseconds per slot, and how many of them picking takes.",
            ("slot", "picking"),
            unit="ms",
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
    series: Sequence[str],
    *,
    unit: str = "share",
    zoomed: bool = False,
) -> Plot:
    """Draw some columns over slots; of several runs the first is a line, the others are dashed."""
    several = len(runs) > 1
    lines: list[Line] = []
    columns: dict[str, list[object]] = {"run": []} if several else {}
    columns |= {"curve": [], "slot": [], "value": []}
    for at, (run_name, run) in enumerate(runs.items()):
        for order, label in enumerate(series):
            slots, values = SERIES[label](run.history)
            title_of = f"{run_name}: {label}" if len(series) > 1 else run_name
            lines.append(
                Line(
                    title_of if several else label,
                    slots.tolist(),
                    values.tolist(),
                    at if several else order,
                    dashed=several and order > 0,
                    mean_of=1 if label in MEASURED else max(1, len(run.history) // POINTS),
                )
            )
            if several:
                columns["run"] += [run_name] * len(slots)
            columns["curve"] += [label] * len(slots)
            columns["slot"] += slots.tolist()
            columns["value"] += values.tolist()
    return Plot(name, title, caption, lines, columns, unit, marks_of(runs), zoomed)


def clean_ratio(runs: Mapping[str, Run]) -> Plot:
    """Draw the clean ratio as it was estimated, with its band, and as it was where it is known."""
    alone = len(runs) == 1
    lines: list[Line] = []
    for at, (name, run) in enumerate(runs.items()):
        points = thin_points(run.estimates.points)
        if not points:
            continue
        slots = [point.slot for point in points]
        band = [point.low for point in points], [point.high for point in points]
        title = "estimated" if alone else f"{name}: estimated"
        lines.append(Line(title, slots, [point.value for point in points], at, band))
        held = [(point.slot, *point.held) for point in points if point.held is not None]
        if held and alone:
            held_slots, values, low, high = (list(part) for part in zip(*held, strict=True))
            lines.append(Line("of the rows held", held_slots, values, 1, (low, high), dashed=True))
        true = [(point.slot, point.true) for point in points if point.true is not None]
        if true:
            true_slots, shares = (list(part) for part in zip(*true, strict=True))
            title = "true" if alone else f"{name}: true"
            lines.append(Line(title, true_slots, shares, 2 if alone else at, steps=True,
                              dashed=not alone))  # fmt: skip
    rows = [(name, point) for name, run in runs.items() for point in run.estimates.points]
    columns: dict[str, list[object]] = {} if alone else {"run": [name for name, _ in rows]}
    for part in ("slot", "value", "low", "high", "true"):
        columns[part] = [getattr(point, part) for _, point in rows]
    for at, part in enumerate(("held", "held_low", "held_high")):
        columns[part] = [point.held[at] if point.held else None for _, point in rows]
    caption = (
        "Estimated share of arriving labels that are right, with a 90% band. Dashed: the selector's"
        " own estimate for the rows held."
        if alone
        else "Estimated share of arriving labels that are right, with a 90% band; dashed: true."
    )
    title = "Clean ratio of arriving labels"
    return Plot("clean_ratio", title, caption, lines, columns, marks=marks_of(runs))


def by_class(run: Run) -> Plot:
    """Draw the clean ratio of each given label, the least right ones named."""
    points = thin_points([point for point in run.estimates.points if point.by_class])
    classes = run.classes
    last = [share for share in (points[-1].by_class or ()) if share is not None] if points else []
    known = range(min(len(classes), len(points[-1].by_class or ()) if points else 0))
    worst = sorted(known, key=lambda label: share_of(points, label))[: len(COLOURS)]
    others = [label for label in range(len(last)) if label not in worst]
    lines = [Line("", *shares_of_class(points, label)) for label in others]
    lines += [
        Line(classes[label], *shares_of_class(points, label), colour)
        for colour, label in enumerate(worst)
    ]
    columns: dict[str, list[object]] = {"slot": [point.slot for point in points]}
    for label, name in enumerate(classes):
        columns[f"label {name}"] = [
            (point.by_class or ())[label] if label < len(point.by_class or ()) else None
            for point in points
        ]
    caption = "Of the rows given each label, the share that is right; the lowest are named."
    title = "Clean ratio by given label"
    return Plot("by_class", title, caption, lines, columns, marks=marks_of({run.name: run}))


def annotators(run: Run) -> Plot:
    """Draw the accuracy of annotators: of the worst by name, of the others without."""
    newest = run.annotators.newest
    names = [one.name for one in newest.annotators] if newest else []
    found = {name: run.annotators.accuracies(name) for name in names}
    lines = [
        Line(name if at < len(COLOURS) else "", slots, values, at)
        for at, (name, (slots, values)) in enumerate(found.items())
    ]
    lines.sort(key=lambda line: line.name != "")  # those without a name lie below
    columns: dict[str, list[object]] = {"annotator": [], "slot": [], "accuracy": []}
    for name, (slots, values) in found.items():
        columns["annotator"] += [name] * len(slots)
        columns["slot"] += slots
        columns["accuracy"] += values
    caption = "Estimated share of an annotator's labels that are right; the lowest are named."
    title, marks = "Accuracy of annotators", marks_of({run.name: run})
    return Plot("annotators", title, caption, lines, columns, marks=marks, zoomed=True)


def thin_points(points: Sequence[EstimatePoint]) -> list[EstimatePoint]:
    """Return as many of the points as a line has, the last among them."""
    kept, _ = thin((np.arange(len(points)), np.zeros(len(points))))
    return [points[at] for at in kept.tolist()]


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


def marks_of(runs: Mapping[str, Run]) -> list[Mark]:
    """Return the alarms to mark: those of a run that stands alone."""
    return [
        Mark(alarm.slot, alarm.subject or alarm.kind)
        for run in runs.values()
        for alarm in run.estimates.alarms
        if len(runs) == 1
    ]
