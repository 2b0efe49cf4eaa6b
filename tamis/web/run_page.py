"""One page about a run, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.runs import EstimatePoint, Run, RunFiles
from tamis.web.chart import Plot
from tamis.web.class_scores import class_scores
from tamis.web.csv_text import as_data, to_csv
from tamis.web.drawing import draw
from tamis.web.empty import no_suspects
from tamis.web.heat import Cell, HeatMap, Row, heat_of
from tamis.web.pages import render_file
from tamis.web.run_plots import plots_of

SUSPECTS = 48
"""Suspects on the page."""
TIMES = 4
"""Slots at which the confusion of labels is drawn."""
MOST_CLASSES, MOST_EARLIER = 50, 12
"""Classes in the newest table of confusion, and in earlier ones; of more, those confused most."""
MOST_PAIRS = 3
"""Pairs of classes that are named above the table."""
LEAST_WRITTEN = 0.005
"""Share of the labels of a class that is written into a cell; smaller ones round to 0%."""


@dataclass(frozen=True)
class Confusion:
    """The confusion of labels at some slots, the newest last, as tables.

    `pairs` are the most frequent wrong labels; `cut` counts classes where some are left out.
    """

    maps: Sequence[HeatMap] = ()
    slots: Sequence[int] = ()
    pairs: Sequence[WrongPair] = ()
    cut: int | None = None


@dataclass(frozen=True)
class WrongPair:
    """The share of the rows of a class that are given another label."""

    own: str
    given: str
    share: float


def write_run_page(run: Run, page: Path | None = None, chosen: int = SUSPECTS) -> Path:
    """Write the page, and return where it is."""
    page = page or run.folder / RunFiles.report
    write_atomically(page, render_run(run, chosen).encode())
    return page


def render_run(run: Run, chosen: int = SUSPECTS) -> str:
    """Return the page as text."""
    return render_file(
        "run.html",
        cards=run.suspects.read(list(run.suspects)[:chosen]),
        audit=run.audit.tally(run.decisions).text,
        decided=lambda name: describe_decision(run, name),
        decided_count=len(run.decisions.decided()),
        suspects_href=as_data(suspects_csv(run)),
        scores=class_scores(run.confusion),
        empty=no_suspects(run),
        **draw_all(snapshot(run)),
    )


@dataclass(frozen=True)
class Snapshot:
    """The numbers of a run at a moment, to be drawn later while the run is refreshed."""

    run: Run
    plots: Sequence[Plot]
    confusion: Confusion
    confusion_csv: str


def snapshot(run: Run) -> Snapshot:
    """Return the present numbers of a run."""
    return Snapshot(run, plots_of({run.name: run}), confusion_of(run), confusion_csv(run))


def draw_all(seen: Snapshot, link: str | None = None) -> dict[str, Any]:
    """Return what the template of plots and confusion needs; `link` leads to numbers."""
    return {
        "run": seen.run,
        "plots": [draw(plot, address(plot, link)) for plot in seen.plots],
        "confusion": seen.confusion,
        "confusion_href": f"{link}confusion.csv" if link else as_data(seen.confusion_csv),
    }


def address(plot: Plot, link: str | None = None) -> str:
    """Return where the numbers of a plot are: behind a link, or in the page."""
    return f"{link}{plot.name}.csv" if link else as_data(plot.to_csv())


def describe_decision(run: Run, name: str) -> str:
    """Return the decision about a suspect in words, empty where there is none."""
    found = run.decisions.of(name)
    if found is None:
        return ""
    return f"relabelled {found.label}" if found.decision == "relabel" else found.decision


def confusion_of(run: Run) -> Confusion:
    """Return the confusion of labels at several slots, and its most frequent pairs."""
    points = [point for point in run.estimates.points if point.confusion]
    if not points:
        return Confusion()
    newest = points[-1]
    classes = names_of(run, len(newest.confusion or ()))
    picked = [points[round(at * (len(points) - 1) / max(1, TIMES - 1))] for at in range(TIMES)]
    chosen = most_confused(newest, len(classes), MOST_CLASSES)
    fewer = most_confused(newest, len(classes), MOST_EARLIER)
    by_slot = {point.slot: point for point in picked}
    maps = [
        table_of(point, classes, chosen if point is newest else fewer) for point in by_slot.values()
    ]
    cut = len(chosen) if len(chosen) < len(classes) else None
    return Confusion(maps, list(by_slot), wrong_pairs(newest, classes), cut)


def wrong_pairs(point: EstimatePoint, classes: Sequence[str]) -> list[WrongPair]:
    """Return the most frequent wrong labels, by their share of the rows of a class."""
    table = point.confusion or ()
    pairs = [
        WrongPair(classes[row], classes[column], share)
        for row, shares in enumerate(table)
        for column, share in enumerate(shares)
        if row != column and share >= LEAST_WRITTEN
    ]
    return sorted(pairs, key=lambda pair: -pair.share)[:MOST_PAIRS]


def names_of(run: Run, count: int) -> list[str]:
    """Return the names of so many classes, numbers where they are not known.

    Classes that came up since are left out.
    """
    known = run.classes
    return known[:count] if len(known) >= count else [str(label) for label in range(count)]


def most_confused(point: EstimatePoint, classes: int, most: int) -> list[int]:
    """Return the classes that are confused most, in their order."""
    rows = point.confusion or ()
    columns = [sum(column) for column in zip(*rows, strict=True)]
    wrong = [sum(rows[label]) + columns[label] - 2 * rows[label][label] for label in range(classes)]
    return sorted(sorted(range(classes), key=lambda label: -wrong[label])[:most])


def table_of(point: EstimatePoint, classes: Sequence[str], chosen: Sequence[int]) -> HeatMap:
    """Turn shares into cells."""
    table = point.confusion or ()
    rows = []
    chosen = [label for label in chosen if label < len(table)]  # others had not come up yet
    hottest = max((table[a][b] for a in chosen for b in chosen if a != b), default=0.0)
    for row in chosen:
        cells = [
            Cell(
                f"{100 * table[row][column]:.0f}" if table[row][column] >= LEAST_WRITTEN else "",
                0 if row == column else heat_of(table[row][column], max(hottest, 0.05)),
                row == column,
            )
            for column in chosen
        ]
        rows.append(Row(classes[row], cells))
    names = [classes[label] for label in chosen]
    sentence = "{value}% of {row} are labelled {column}"
    return HeatMap(f"Labels at slot {point.slot:,}", names, rows, sentence, "under 0.5")


def confusion_csv(run: Run) -> str:
    """Return every confusion matrix as CSV: slot, class, given label, share."""
    rows = [
        (point.slot, row, column, share)
        for point in run.estimates.points
        for row, shares in enumerate(point.confusion or ())
        for column, share in enumerate(shares)
    ]
    names = names_of(run, 1 + max((row for _, row, _, _ in rows), default=-1))
    return to_csv(
        ("slot", "class", "given", "share"),
        [(slot, names[row], names[column], share) for slot, row, column, share in rows],
    )


def suspects_csv(run: Run) -> str:
    """Return all suspects and decisions as CSV."""
    rows = []
    known = any(one.annotator for one in run.suspects)
    for one in run.suspects:
        found = run.decisions.of(one.id)
        decided = (found.decision, found.label or "") if found else ("", "")
        giver = (one.annotator,) if known else ()
        rows.append((one.id, one.given, one.suggested, f"{one.score:.6f}", *decided, *giver))
    names = ("id", "given", "suggested", "score", "decision", "label")
    return to_csv((*names, "annotator") if known else names, rows)
