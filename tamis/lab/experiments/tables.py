"""The comparison on tables: cells in processes, a CSV that grows, a page of means."""

from __future__ import annotations

import csv
import multiprocessing
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from time import monotonic

import torch
from rich.console import Console
from rich.markdown import Markdown

from tamis.checkpoint import write_atomically
from tamis.errors import UsageError
from tamis.lab.pages.front_page import write_front
from tamis.lab.pages.markdown import put_between, read_page
from tamis.lab.pages.tables_page import Line, page_of
from tamis.lab.table_models import METHODS
from tamis.lab.table_sets import TABLES
from tamis.lab.tables import NOISES, Cell, Measured
from tamis.monitoring.progress import Bar

WRONG = (0.2, 0.4)
PART = "tables"
Job = tuple[str, Cell]


def run(options: Namespace) -> int:
    """Run the cells that are missing, print the means, and write them into a page."""
    for kind, chosen, known in (
        ("table", options.tables, TABLES),
        ("method", options.methods, METHODS),
    ):
        for name in set(chosen or ()) - set(known):
            raise UsageError(f"no {kind} {name!r}: name some of {', '.join(known)}.")
    console = Console()
    file = options.out / "tables.csv"
    options.out.mkdir(parents=True, exist_ok=True)
    done = {(line.method, line.cell) for line in read(file)}
    jobs = [job for job in wanted(options) if job not in done]
    with Bar("tables", len(jobs), console) as bar:
        for line in results(jobs, options.jobs, options.minutes):
            append(file, line)
            bar.advance(line.cell.table)
    lines = read(file)
    if not lines:
        raise UsageError(f"{file} has no cell: give it more --minutes.")
    text = page_of(lines)
    console.print(Markdown(text))
    if options.page:
        try:
            page = put_between(read_page(options.page, PART), text, PART)
        except ValueError as error:
            raise UsageError(f"--page {options.page}: {error}.") from None
        write_atomically(options.page, page.encode())
    if options.front:
        write_front(lines, options.out.parent, options.front)
    return 0


def wanted(options: Namespace) -> list[Job]:
    """Return all cells of all methods, large tables first: they take longest."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    return [
        (method, Cell(table, noise, wrong, seed))
        for table in reversed([name for name in TABLES if name in (options.tables or TABLES)])
        for seed in seeds
        for noise in NOISES
        for wrong in WRONG
        for method in options.methods or METHODS
    ]


def results(jobs: Sequence[Job], processes: int, minutes: float) -> Iterator[Line]:
    """Yield what each job came to, as they end; each has a process of its own."""
    until = monotonic() + 60 * minutes
    torch.set_num_threads(1)
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        waiting = pool.imap_unordered(measure, jobs)
        with suppress(multiprocessing.TimeoutError):
            for _ in jobs:
                yield waiting.next(max(0.0, until - monotonic()))


def measure(job: Job) -> Line:
    """Return what a method makes of a cell."""
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # an MLP of scikit-learn that has not converged
    method, cell = job
    with threadpool_limits(1):
        return Line(method, cell, METHODS[method](cell))


def append(file: Path, line: Line) -> None:
    """Add a line to the CSV, after its header."""
    row = {"method": line.method, **line.cell._asdict(), **asdict(line.measured)}
    new = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.DictWriter(out, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(
            {
                name: f"{value:.4f}" if isinstance(value, float) else value
                for name, value in row.items()
            }
        )


def read(file: Path) -> list[Line]:
    """Return the lines of the CSV; none where there is no file."""
    if not file.exists():
        return []
    with file.open(newline="") as rows:
        return [
            Line(
                row["method"],
                Cell(row["table"], row["noise"], float(row["wrong"]), int(row["seed"])),
                Measured(**{field.name: float(row[field.name]) for field in fields(Measured)}),
            )
            for row in csv.DictReader(rows)
        ]
