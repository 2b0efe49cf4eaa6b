"""Runs of the frontier: the missing cells, its file, tables and figure."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from tamis.errors import UsageError, needs_extra
from tamis.lab.board import load
from tamis.lab.experiments.choices import make_folder, named, ratios
from tamis.lab.experiments.workers import Failure, run_all
from tamis.lab.frontier import Cell, Point, cells, run_cell
from tamis.lab.methods import METHODS, VARIANTS
from tamis.lab.noise_kinds import NOISES
from tamis.lab.rows import append, key, read
from tamis.lab.scene import PLACES
from tamis.monitoring.progress import Bar

USUAL = (
    "naive", "oracle", "Plausible", "OGRS", "BARE", "Co-teaching", "SSR", "DISC", "IDO", "ILL",
    "FixMatch", "FixMatch, oracle", "DivideMix",
)  # fmt: skip
"""Methods of the frontier where none are named."""


def run(options: Namespace) -> int:
    """Run the missing cells, write the page, and print it."""
    console, wanted, budgets = Console(), chosen(options), chosen_budgets(options.passes)
    with needs_extra("demo"):
        from tamis.lab.pages import frontier_page, markdown
    if options.page:
        try:
            markdown.put_between(markdown.read_page(options.page, "frontier"), "", "frontier")
        except (OSError, ValueError) as error:
            raise UsageError(f"--page {options.page}: {error}.") from None
    path = make_folder(options.out) / "results.csv"
    done = {(key(point, Cell), point.budget) for point in read(path, Point)}
    missing = [
        cell for cell in wanted if any((key(cell, Cell), each) not in done for each in budgets)
    ]
    failures = run_missing(missing, path, budgets, options, console)
    keys = {key(cell, Cell) for cell in wanted}
    points = [
        point for point in read(path, Point) if key(point, Cell) in keys and point.budget in budgets
    ]
    if points:
        text = frontier_page.write_frontier(points, options.out, options.page)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    return 1 if failures else 0


def run_missing(
    missing: Sequence[Cell],
    path: Path,
    budgets: Sequence[float],
    options: Namespace,
    console: Console,
) -> int:
    """Run cells, record each as it ends, and return how many failed."""
    if not missing:
        return 0
    for name in dict.fromkeys(cell.data for cell in missing):
        load(name, options.data_folder)  # missing data is reported or downloaded before any run
    failures = 0
    with Bar("frontier", len(missing), console, "runs") as bar:
        work = partial(run_cell, budgets=budgets, folder=options.data_folder)
        for outcome in run_all(work, missing, min(options.jobs, len(missing))):
            if isinstance(outcome, Failure):
                failures += 1
                text = f"Failed: {outcome.cell}: {outcome.error}"
                console.print(text, markup=False, highlight=False)
                bar.advance(outcome.cell.method)
                continue
            done = {(key(point, Cell), point.budget) for point in read(path, Point)}
            new = [point for point in outcome if (key(point, Cell), point.budget) not in done]
            append(path, new)
            bar.advance(new[0].method)
    return failures


def chosen(options: Namespace) -> list[Cell]:
    """Return the cells that the options name; a mistake costs one line."""
    for flag in ("seeds", "jobs"):
        if getattr(options, flag) < 1:
            raise UsageError(f"--{flag} is at least 1, got {getattr(options, flag)}.")
    known = [method.name for method in (*METHODS, *VARIANTS)]
    data = named(options.data, list(PLACES), "data")
    for name in data:
        if PLACES[name].once:
            raise UsageError(f"--data {name}: its rows arrive over all slots, so none is held.")
    methods = USUAL if options.methods is None else named(options.methods, known, "methods")
    noises = named(options.noise, list(NOISES), "noise")
    return cells(methods, data, noises, ratios(options.clean_ratios), options.seeds)


def chosen_budgets(text: str) -> list[float]:
    """Read the forward-equivalents a row."""
    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = []
    if not found or not all(0 < budget < math.inf for budget in found):
        raise UsageError(f"--passes takes numbers above 0, as 3,10, got {text!r}.")
    return found
