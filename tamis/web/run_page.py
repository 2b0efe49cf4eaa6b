"""One page about a run, in one file that needs no network and runs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from tamis.checkpoint import write_atomically
from tamis.runs import EstimatePoint, Run, RunFiles
from tamis.web.class_scores import class_scores
from tamis.web.csv_text import as_data, to_csv
from tamis.web.heat import HOTTEST, Cell, Row
from tamis.web.row_columns import cells_of
from tamis.web.run_plots import Plot, plots_of
from tamis.web.svg import to_inline_svg
from tamis.web.tiles import tiles_of

SUSPECTS = 48
"""Suspects on the page."""
TIMES = 4
"""Slots at which the confusion of labels is drawn."""
MOST_CLASSES = 12
"""Classes in a table of confusion; of more, those that are confused most."""


@dataclass(frozen=True)
class DrawnPlot:
    """A plot as a template needs it. `href` leads to its numbers."""

    name: str
    title: str
    caption: str
    svg: Markup
    href: str


@dataclass(frozen=True)
class Heat:
    """The confusion of labels at a slot."""

    slot: int
    names: Sequence[str]
    rows: Sequence[Row]


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates, all of which escape what they are given."""
    templates = Environment(
        loader=PackageLoader("tamis.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.globals |= {"tiles_of": tiles_of, "cells_of": cells_of}
    return templates


@lru_cache(maxsize=4)
def asset(name: str) -> str:
    """Read a file that stands beside the templates."""
    loader = environment().loader
    if loader is None:
        raise FileNotFoundError(name)
    return loader.get_source(environment(), name)[0]


def write_run_page(run: Run, page: Path | None = None, chosen: int = SUSPECTS) -> Path:
    """Write the page, and return where it is."""
    page = page or run.folder / RunFiles.report
    write_atomically(page, render_run(run, chosen).encode())
    return page


def render_run(run: Run, chosen: int = SUSPECTS) -> str:
    """Return the page as text."""
    return (
        environment()
        .get_template("run.html")
        .render(
            css=Markup(asset("page.css")),  # noqa: S704
            cards=run.suspects.read(list(run.suspects)[:chosen]),
            audit=run.audit.tally(run.decisions).text,
            decided=lambda name: describe_decision(run, name),
            suspects_href=as_data(suspects_csv(run)),
            scores=class_scores(run.confusion),
            **curves_of(run),
        )
    )


def curves_of(run: Run, link: str | None = None) -> dict[str, Any]:
    """Return what the part of the page with plots and confusion needs; `link` leads to numbers."""
    return draw_all(snapshot(run), link)


@dataclass(frozen=True)
class Snapshot:
    """The numbers of a run at a moment, to be drawn later while the run is refreshed."""

    run: Run
    plots: Sequence[Plot]
    heats: Sequence[Heat]
    cut: int | None
    confusion: str


def snapshot(run: Run) -> Snapshot:
    """Return the present numbers of a run."""
    heats, cut = heats_of(run)
    return Snapshot(run, plots_of({run.name: run}), heats, cut, confusion_csv(run))


def draw_all(seen: Snapshot, link: str | None = None) -> dict[str, Any]:
    """Return what the template of plots and confusion needs."""
    return {
        "run": seen.run,
        "plots": [draw(plot, link) for plot in seen.plots],
        "heats": seen.heats,
        "cut": seen.cut,
        "confusion_href": f"{link}confusion.csv" if link else as_data(seen.confusion),
    }


def draw(plot: Plot, link: str | None = None) -> DrawnPlot:
    """Draw a plot. What is in the SVG is numbers and words of ours, and escaped names."""
    href = f"{link}{plot.name}.csv" if link else as_data(plot.to_csv())
    svg = Markup(to_inline_svg(plot))  # noqa: S704
    return DrawnPlot(plot.name, plot.title, plot.caption, svg, href)


def describe_decision(run: Run, name: str) -> str:
    """Return the decision about a suspect in words, empty where there is none."""
    found = run.decisions.of(name)
    if found is None:
        return ""
    return f"relabelled {found.label}" if found.decision == "relabel" else found.decision


def heats_of(run: Run) -> tuple[list[Heat], int | None]:
    """Return the confusion at several slots, and how many classes are left if some are not."""
    points = [point for point in run.estimates.points if point.confusion]
    if not points:
        return [], None
    classes = names_of(run, len(points[-1].confusion or ()))
    chosen = most_confused(points[-1], len(classes))
    picked = [points[round(at * (len(points) - 1) / max(1, TIMES - 1))] for at in range(TIMES)]
    heats = [heat_of(point, classes, chosen) for point in {p.slot: p for p in picked}.values()]
    return heats, len(chosen) if len(chosen) < len(classes) else None


def names_of(run: Run, count: int) -> list[str]:
    """Return the names of so many classes, numbers where they are not known.

    Classes that came up since are left out.
    """
    known = run.classes
    return known[:count] if len(known) >= count else [str(label) for label in range(count)]


def most_confused(point: EstimatePoint, classes: int) -> list[int]:
    """Return the classes that are confused most, in their order."""
    rows = point.confusion or ()
    wrong = [
        sum(rows[label]) - rows[label][label] + sum(row[label] for row in rows) - rows[label][label]
        for label in range(classes)
    ]
    return sorted(sorted(range(classes), key=lambda label: -wrong[label])[:MOST_CLASSES])


def heat_of(point: EstimatePoint, classes: Sequence[str], chosen: Sequence[int]) -> Heat:
    """Turn shares into cells."""
    table = point.confusion or ()
    rows = []
    chosen = [label for label in chosen if label < len(table)]  # others had not come up yet
    for row in chosen:
        shares = [table[row][column] for column in chosen]
        cells = [
            Cell(f"{100 * share:.0f}", min(HOTTEST, round(share * 2 * HOTTEST)), row == column)
            for column, share in zip(chosen, shares, strict=True)
        ]
        rows.append(Row(classes[row], cells))
    return Heat(point.slot, [classes[label] for label in chosen], rows)


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
