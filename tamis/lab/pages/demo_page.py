"""The demo's folder: log, plots, ground truth, suspects, and one page that needs no network."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from torch import Tensor

from tamis.checkpoint import write_atomically
from tamis.lab.demo import LEAD, Demo, Result, log_path
from tamis.runs import History, Suspect, write_suspects_csv
from tamis.web.chart import Line, Mark, Plot
from tamis.web.csv_text import as_data
from tamis.web.drawing import draw
from tamis.web.pages import render_file
from tamis.web.svg import draw_figure, save_png
from tamis.web.words import as_percent

CARDS = 24
"""Suspects on the page."""
EXAMPLES = 8
"""Wrong labels that every method is compared on, evenly spread over all of them."""
POINTS = 50
"""Means of a share that every slot has."""
CALLED = {
    "naive": "naive training",
    "OGRS": "OGRS, the paper's method",
    "oracle": "the oracle, which knows every label",
}
ABOUT = {
    LEAD: "weighs labels, neighbours and its own predictions; the default of tamis train",
    "naive": "picks at random, and trusts every label",
    "OGRS": "the paper's method: picks by gradients; needs no clean ratio",
    "oracle": "knows which labels are right, and picks only those: not a method, but a reference",
}
LEAST_LOSS = "picks the smallest losses; must be given the share to keep"
COLOURS = {LEAD: 0, "naive": 4, "OGRS": 3, "oracle": 2}


@dataclass(frozen=True)
class Card:
    """One suspect label as the page shows it."""

    image: str
    suspect: Suspect
    wrong: bool


@dataclass(frozen=True)
class Example:
    """A wrong label: what the row is, and what every method predicts for it in the end."""

    image: str
    name: str
    given: str
    true: str
    predicted: Sequence[str]


@dataclass(frozen=True)
class Standing:
    """What a method has come to. Of the wrong labels, some are learned and some recovered."""

    name: str
    about: str
    accuracy: float
    raw: float
    learned: float
    recovered: float
    purity: float | None
    coverage: float
    milliseconds: float


@dataclass(frozen=True)
class Found:
    """Suspects, how many of their labels are wrong, and wrong labels in all."""

    suspects: int
    right: int
    wrong: int


def write_demo(demo: Demo, results: Sequence[Result], folder: Path) -> Path:
    """Write everything but the logs, which are there already, and return the page's path."""
    logs = {result.name: History(log_path(folder, result.name)) for result in results}
    finder = lead_of(results)
    plots = plots_of(demo, finder, logs)
    for plot in plots:
        save_png(draw_figure(plot), folder / f"{plot.name}.png")
    write_suspects_csv(folder / "suspects.csv", finder.suspects)
    write_ground_truth(demo, folder / "ground_truth.csv")
    page = folder / "index.html"
    standings = [standing(demo, result) for result in results]
    html = render_file(
        "demo.html",
        demo=demo,
        finder=finder,
        standings=standings,
        most_learned=max(one.learned for one in standings) or 1.0,
        findings=findings(results),
        follows=follows(demo, finder),
        plots={plot.name: draw(plot, as_data(plot.to_csv())) for plot in plots},
        examples=examples(demo, results),
        cards=cards(demo, finder),
        found=hits(demo, finder),
    )
    write_atomically(page, html.encode())
    return page


def lead_of(results: Sequence[Result]) -> Result:
    """Return the result of the method that the page is about."""
    return next(result for result in results if result.name == LEAD)


def plots_of(demo: Demo, finder: Result, logs: Mapping[str, History]) -> list[Plot]:
    """Return the plots: the clean ratio, and what all methods did over slots."""
    slots = next(iter(logs.values())).column("slot")
    stretch = len(slots) / len(demo.settings.clean_ratios)
    marks = [
        Mark(round(at * stretch), f"{as_percent(ratio)} right")
        for at, ratio in enumerate(demo.settings.clean_ratios)
    ]
    true = [demo.clean_ratio(int(slot)) for slot in slots]
    tracked, estimates = list(finder.tracked), list(finder.tracked.values())
    band = [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
    lines = [
        Line("estimated", tracked, [estimate.value for estimate in estimates], 0, band),
        Line("true", slots.tolist(), true, 2, steps=True),
    ]
    columns = {
        "slot": tracked,
        "estimated": lines[0].values,
        "low": band[0],
        "high": band[1],
        "true": [true[slot] for slot in tracked],
    }
    caption = (
        "Share of arriving labels that are right: the truth, and what the run of"
        f" {LEAD} estimates without it, with a 90% band."
    )
    return [
        Plot("clean_ratio", "The share of right labels drifts", caption, lines, columns),
        of_methods(
            "accuracy",
            "Accuracy on clean digits",
            "Averaged weights, on digits that no method learns from.",
            {name: log.measured("accuracy_ema") for name, log in logs.items()},
            marks,
        ),
        of_methods(
            "purity",
            "Purity of the picks",
            "Share of picks whose label is right.",
            {name: log.smooth("purity", POINTS) for name, log in logs.items()},
            marks,
            len(slots) // POINTS,
        ),
        of_methods(
            "coverage",
            "Coverage",
            "Share of the digits held that were picked at least once.",
            {name: log.smooth("coverage", POINTS) for name, log in logs.items()},
            marks,
            len(slots) // POINTS,
        ),
    ]


def of_methods(
    name: str,
    title: str,
    caption: str,
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    marks: Sequence[Mark],
    mean_of: int = 1,
) -> Plot:
    """Return a plot with a line for each method."""
    left = iter((1, 5))
    lines = [
        Line(
            method, slots.tolist(), values.tolist(),
            COLOURS[method] if method in COLOURS else next(left), mean_of=max(1, mean_of),
        )
        for method, (slots, values) in curves.items()
    ]  # fmt: skip
    rows = [
        (method, slot, value)
        for method, (slots, values) in curves.items()
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True)
    ]
    names = ("method", "slot", "value")
    columns = {part: [row[at] for row in rows] for at, part in enumerate(names)}
    return Plot(name, title, caption, lines, columns, marks=marks, zoomed=True)


def standing(demo: Demo, result: Result) -> Standing:
    """Return what a method has come to."""
    wrong = (~demo.ground_truth.clean).nonzero()[:, 0].tolist()
    given, true = demo.rows.labels.tolist(), true_labels(demo)
    learned = [result.predicted[row] == given[row] for row in wrong]
    recovered = [result.predicted[row] == true[row] for row in wrong]
    tested = result.tested[-1]
    return Standing(
        result.name,
        ABOUT.get(result.name, LEAST_LOSS),
        last_accuracy(result),
        tested.accuracy or 0.0,
        mean(learned) if wrong else 0.0,
        mean(recovered) if wrong else 0.0,
        result.purity,
        result.coverage,
        1000 * result.seconds_per_slot,
    )


def true_labels(demo: Demo) -> list[int]:
    """Return the true class of every row, in the order of arrival."""
    groups = demo.rows.groups
    return [] if groups is None else list(map(int, groups.tolist()))


def last_accuracy(result: Result) -> float:
    """Accuracy of the averaged weights at the end."""
    return result.tested[-1].accuracy_ema or 0.0


def findings(results: Sequence[Result]) -> list[str]:
    """Return sentences about which method won."""
    at = {result.name: last_accuracy(result) for result in results}
    lead = at.pop(LEAD)
    lines = []
    for name, value in at.items():
        gap = 100 * (lead - value)
        side = "above" if gap >= 0 else "below"
        lines.append(f"{LEAD} ends {abs(gap):.1f} points {side} {CALLED.get(name, name)}.")
    lines += [f"{result.name}: {text}." for result in results for text in result.warnings]
    return lines


def follows(demo: Demo, result: Result) -> str:
    """Return a sentence about the error of the tracked clean ratio."""
    off = [abs(est.value - demo.clean_ratio(slot)) for slot, est in result.tracked.items()]
    return f"Its estimate is off by {mean(off):.2f} on average, jumps included." if off else ""


def hits(demo: Demo, result: Result) -> Found:
    """Count suspects, suspects whose label is wrong, and wrong labels in all."""
    wrong = demo.ground_truth.wrong_ids
    right = sum(int(suspect.id) in wrong for suspect in result.suspects)
    return Found(len(result.suspects), right, len(wrong))


def found_text(demo: Demo, results: Sequence[Result]) -> str:
    """Return a sentence about the labels that were found."""
    found = hits(demo, lead_of(results))
    return (
        f"{LEAD} lists {found.suspects:,} labels as suspect: {found.right:,} of them are really"
        f" wrong, of {found.wrong:,} wrong labels in all."
    )


def examples(demo: Demo, results: Sequence[Result]) -> list[Example]:
    """Return wrong labels, evenly spread over all of them, and what is predicted for each."""
    wrong = (~demo.ground_truth.clean).nonzero()[:, 0].tolist()
    rows = [wrong[at * len(wrong) // EXAMPLES] for at in range(EXAMPLES)] if wrong else []
    names, given, true = demo.data.classes, demo.rows.labels.tolist(), true_labels(demo)
    return [
        Example(
            to_png(demo.rows.inputs[row]),
            str(int(demo.rows.ids[row])),
            names[given[row]],
            names[true[row]],
            [names[result.predicted[row]] for result in results],
        )
        for row in dict.fromkeys(rows)
    ]


def cards(demo: Demo, result: Result) -> list[Card]:
    """Return the worst suspects, with their images."""
    places = {row: at for at, row in enumerate(demo.rows.ids.tolist())}
    wrong = demo.ground_truth.wrong_ids
    return [
        Card(to_png(demo.rows.inputs[places[int(one.id)]]), one, int(one.id) in wrong)
        for one in result.suspects[:CARDS]
    ]


def to_png(image: Tensor) -> str:
    """Encode a grey image, dark on white, as a data URL."""
    from matplotlib import image as files

    out = io.BytesIO()
    files.imsave(out, 1 - np.asarray(image), cmap="gray", vmin=0, vmax=1, format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def write_ground_truth(demo: Demo, path: Path) -> None:
    """Write which labels the simulation made wrong, so that anyone can check the suspects."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["id", "given", "clean"])
    ground_truth = demo.ground_truth
    writer.writerows(
        zip(
            ground_truth.ids.tolist(),
            ground_truth.labels.tolist(),
            ground_truth.clean.int().tolist(),
            strict=True,
        )
    )
    write_atomically(path, out.getvalue().encode())
