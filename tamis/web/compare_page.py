"""Runs side by side: one page, their curves on top of each other, and where settings differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.runs import Run
from tamis.web.class_scores import MOST_LISTED
from tamis.web.drawing import draw
from tamis.web.heat import Row
from tamis.web.pages import render_file
from tamis.web.run_page import address
from tamis.web.run_plots import plots_of
from tamis.web.tiles import Tile, numbered, tiles_of


def write_compare_page(runs: Mapping[str, Run], page: Path) -> Path:
    """Write the page, and return where it is."""
    write_atomically(page, render_compare(runs).encode())
    return page


def render_compare(runs: Mapping[str, Run]) -> str:
    """Return the page as text."""
    return render_file(
        "compare.html",
        runs=runs,
        numbers=numbers(runs),
        plots=[draw(plot, address(plot)) for plot in plots_of(runs)],
        recalls=recalls(runs),
        differences=differences(runs),
    )


def recalls(runs: Mapping[str, Run]) -> list[Row]:
    """Return the recall of each class in the test tables of runs, where they differ most first."""
    found = [
        {score.name: score.recall for score in run.test.found.by_class()} if run.test.found else {}
        for run in runs.values()
    ]
    rows = []
    for name in dict.fromkeys(name for scores in found for name in scores):
        known = [recall for scores in found if (recall := scores.get(name)) is not None]
        cells = [numbered("", scores.get(name), "").value for scores in found]
        if known:
            rows.append((max(known) - min(known), Row(name, cells)))
    return [row for _, row in sorted(rows, key=lambda entry: -entry[0])[:MOST_LISTED]]


def name_apart(folders: Sequence[Path]) -> dict[str, Run]:
    """Open runs, each under a name of its own: that of its folder, or more of its path."""
    runs: dict[str, Run] = {}
    for folder in folders:
        run = Run(folder)
        name = run.name
        if name in runs:
            name = f"{folder.resolve().parent.name}/{name}"
        while name in runs:
            name += " again"
        runs[name] = run
    return runs


def numbers(runs: Mapping[str, Run]) -> list[Row]:
    """Put the numbers of all runs into rows; one that a run lacks is left empty."""
    found = [{called(tile): tile.value for tile in tiles_of(run)} for run in runs.values()]
    names = list(dict.fromkeys(name for tiles in found for name in tiles))
    return [Row("state", [run.state for run in runs.values()])] + [
        Row(name, [tiles.get(name, "") for tiles in found]) for name in names
    ]


def called(tile: Tile) -> str:
    """Return the name of a tile; there are two accuracies."""
    return f"{tile.name}, {tile.note}" if tile.name == "accuracy" else tile.name


def differences(runs: Mapping[str, Run]) -> list[Row]:
    """Return the settings and versions that differ between runs."""
    found = [{**run.metadata.versions, **run.metadata.settings} for run in runs.values()]
    names = list(dict.fromkeys(name for settings in found for name in settings))
    rows = [Row(name, [str(settings.get(name, "")) for settings in found]) for name in names]
    return [row for row in rows if len(set(row.cells)) > 1]
