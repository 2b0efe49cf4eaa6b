"""Runs of the audit of OGRS, and its table."""

from __future__ import annotations

import csv
import multiprocessing
from argparse import Namespace
from functools import partial
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table

from tamis.lab.audit import Result, as_row, cells, header, key, run_cell
from tamis.monitoring.progress import Bar

COLUMNS = {
    "clean_ratio": "clean",
    "accuracy": "acc.",
    "accuracy_ema": "ema",
    "purity": "purity",
    "coverage": "cover",
    "stayed": "stay",
    "distinct": "dist.",
    "highest_price": "price",
}


def run(options: Namespace) -> int:
    """Run the missing cells, then print the part."""
    path: Path = options.out / f"{options.part}.csv"
    done = {tuple(row[:6]) for row in read(path)}
    missing = [cell for cell in cells(options.part) if key(cell) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    console = Console()
    if missing:
        with (
            context.Pool(min(options.jobs, len(missing))) as pool,
            Bar(f"audit {options.part}", len(missing), console, "runs") as bar,
        ):
            work = partial(run_cell, folder=options.data_folder)
            for result in pool.imap_unordered(work, missing):
                append(path, result)
                bar.advance(result.name)
    console.print(as_table(options.part, read(path)))
    console.print(f"Results: {path}")
    return 0


def read(path: Path) -> list[list[str]]:
    """Read the results so far."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def append(path: Path, result: Result) -> None:
    """Add one line, under a header if it is the first."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(header())
        writer.writerow(as_row(result))


def as_table(part: str, rows: list[list[str]]) -> Table:
    """Return a table of means over seeds, in the order of the part's cells."""
    table = Table(title=f"audit: {part}, means over seeds", box=None, padding=(0, 1))
    for title in ("name", "data", *COLUMNS.values()):
        table.add_column(title, justify="left" if title in {"name", "data"} else "right")
    columns = header()
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    place = {key(cell): number for number, cell in enumerate(cells(part))}
    for row in sorted(rows, key=lambda row: place.get(tuple(row[:6]), len(place))):
        groups.setdefault(tuple(row[1:4]), []).append(row)
    for (name, data, _), mine in groups.items():
        numbers = (mean(float(row[columns.index(column)]) for row in mine) for column in COLUMNS)
        table.add_row(name, data, *("" if n != n else f"{n:.3f}" for n in numbers))
    return table
