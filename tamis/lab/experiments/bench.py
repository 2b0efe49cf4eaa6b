"""Runs of the board: the missing cells, its files and tables."""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tamis.errors import UsageError, needs_extra
from tamis.lab.board import Cell, Result, cells_at, load, run_cell
from tamis.lab.experiments.choices import make_folder, named, ratios
from tamis.lab.experiments.workers import Failure, run_all
from tamis.lab.methods import METHODS, VARIANTS
from tamis.lab.noise_kinds import NOISES, SCATTERED
from tamis.lab.rows import add_lines, append, header, is_empty, key, read, rewrite
from tamis.lab.scene import PLACES
from tamis.lab.suites import SUITES, Spot, belongs, spots
from tamis.monitoring.progress import Bar

if TYPE_CHECKING:
    from tamis.lab.pages import board_tables

BOARD_DATA = ("digits", "mnist")
BOARD_RATIOS = (0.9, 0.7, 0.5, 0.3)


def run(options: Namespace) -> int:
    """Run the missing cells, then write the board and print it."""
    console = Console()
    if options.list and options.suite in SUITES:
        lines = map(str, chosen_spots(options))
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        return 0
    if options.list:
        console.print(list_methods())
        console.print(f"data: {', '.join(PLACES)}", highlight=False, soft_wrap=True)
        return 0
    wanted = chosen_cells(options)
    with needs_extra("demo"):
        from tamis.lab.pages import board_findings, board_page, board_tables, markdown, suite_page
    part = options.suite if options.suite in SUITES else "board"
    if options.page:
        try:
            markdown.put_between(markdown.read_page(options.page, part), "", part)
        except (OSError, ValueError) as error:
            raise UsageError(f"--page {options.page}: {error}.") from None
    path = make_folder(options.out) / "results.csv"
    done = {key(result, Cell) for result in read(path, Result)}
    missing = [cell for cell in wanted if key(cell, Cell) not in done]
    for name in dict.fromkeys(cell.data for cell in missing):
        load(name, options.data_folder)  # missing data is reported or downloaded before any run
    failures = run_missing(missing, path, options, console) if missing else 0
    place = {key(cell, Cell): number for number, cell in enumerate(wanted)}
    results = sorted(
        (result for result in read(path, Result) if key(result, Cell) in place),
        key=lambda result: place[key(result, Cell)],
    )
    if results and part in SUITES:
        text = suite_page.write_suite(results, part, options.page)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    elif results:
        board_page.write_board(results, options.out, options.page)
        for table in board_tables.as_tables(board_tables.summarise(results)):
            console.print(as_table(table))
            console.print(" ".join(board_findings.findings(table)), markup=False, highlight=False)
        console.print(f"Board: {options.out / 'board.html'}", markup=False, highlight=False)
    if failures:
        text = f"{failures} of {len(wanted)} runs failed: {options.out / 'failed.csv'}"
        console.print(text, markup=False, highlight=False)
    return 1 if failures else 0


def list_methods() -> Table:
    """Return the methods, with the side information that each needs."""
    table = Table("method", "side information", box=None, padding=(0, 2, 0, 0))
    for method in (*METHODS, *VARIANTS):
        table.add_row(Text(method.name), Text(method.side_information or "nothing"))
    return table


def chosen_cells(options: Namespace) -> list[Cell]:
    """Return the cells that the options name; a mistake costs one line."""
    for flag in ("seeds", "slots", "jobs"):
        if getattr(options, flag) is not None and getattr(options, flag) < 1:
            raise UsageError(f"--{flag} is at least 1, got {getattr(options, flag)}.")
    usual = [method.name for method in METHODS]
    known = [*usual, *(method.name for method in VARIANTS)]
    methods = usual if options.methods is None else named(options.methods, known, "methods")
    return cells_at(chosen_spots(options), methods, options.seeds, options.slots)


def chosen_spots(options: Namespace) -> Sequence[Spot]:
    """Return every combination of data, noise and clean ratio; or those that a suite has of them.

    Of a suite, a data set stands for all places that are made of it.
    """
    data, noises, clean = options.data, options.noise, options.clean_ratios
    data = None if data is None else named(data, list(PLACES), "data")
    noises = None if noises is None else named(noises, list(NOISES), "noise")
    clean = None if clean is None else ratios(clean)
    if options.suite not in SUITES:
        return spots(data or BOARD_DATA, noises or SCATTERED, clean or BOARD_RATIOS)
    chosen = [
        spot
        for spot in SUITES[options.suite]
        if not data or any(belongs(spot.data, name) for name in data)
        if not noises or spot.noise in noises
        if not clean or spot.clean_ratio in clean
    ]
    if not chosen:
        raise UsageError(f"--suite {options.suite} has no such cell; add --list for all of them.")
    return chosen


def run_missing(missing: Sequence[Cell], path: Path, options: Namespace, console: Console) -> int:
    """Run cells, record each as it ends, and return how many failed."""
    failed, failures = path.with_name("failed.csv"), 0
    forget(failed, missing)
    with Bar("bench", len(missing), console, "runs") as bar:
        work = partial(run_cell, folder=options.data_folder)
        for outcome in run_all(work, missing, min(options.jobs, len(missing))):
            if isinstance(outcome, Failure):
                failures += 1
                titles = [[*header(Cell), "error"]] if is_empty(failed) else []
                add_lines(failed, [*titles, [*key(outcome.cell, Cell), outcome.error]])
                console.print(describe(outcome), markup=False, highlight=False)
                bar.advance(outcome.cell.method)
            else:
                append(path, [outcome])
                bar.advance(outcome.method)
    return failures


def describe(failure: Failure[Cell]) -> str:
    """Return a sentence about a failed run."""
    cell = failure.cell
    where = f"{cell.data}, {cell.noise} noise, clean ratio {cell.clean_ratio:g}"
    return f"Failed: {cell.method} on {where}, seed {cell.seed}: {failure.error}"


def forget(path: Path, again: Iterable[Cell]) -> None:
    """Remove from the file of failures those that are tried again."""
    if path.exists():
        tried = {key(cell, Cell) for cell in again}
        with path.open(newline="", encoding="utf-8") as file:
            rewrite(path, [row for row in csv.reader(file) if tuple(row[:6]) not in tried])


def as_table(board: board_tables.Table) -> Table:
    """Return a table of the better accuracy at each clean ratio, beside its cost."""
    table = Table(title=board.title, box=None, padding=(0, 1))
    table.add_column("method")
    for ratio in board.clean_ratios:
        table.add_column(f"{ratio:g}", justify="right")
    for title in ("forward", "ms", "side information", "lost"):
        table.add_column(title, justify="left" if title == "side information" else "right")
    for row in board.rows:
        forward, _, milliseconds, *_ = row.bill
        table.add_row(
            Text(row.method),
            *(
                Text(f"{cell.better.mean:.3f}" if cell else "", "bold" if bold else "")
                for cell, bold in zip(row.cells, row.bold, strict=True)
            ),
            *(f"{forward:.1f}", f"{milliseconds:.1f}"),
            Text(row.side_information),
            f"{row.lost}/{row.runs}" if row.lost else "",
        )
    return table
