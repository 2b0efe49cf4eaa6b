"""A million rows of thirty mixed columns through `tamis train`, beside thirty columns of numbers.

python -m benchmarks.tables
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.monitoring.progress import Bar

NUMBERS, CATEGORIES, BOOLEANS, DATES, TEXTS = 14, 8, 3, 3, 2
COLUMNS = NUMBERS + CATEGORIES + BOOLEANS + DATES + TEXTS
BLOCK, MISSING, WRONG = 50_000, 0.08, 0.2
WORDS = (
    "late",
    "early",
    "broken",
    "fine",
    "slow",
    "blue",
    "cheap",
    "lost",
    "found",
    "again",
    "box",
)
Cells = np.ndarray[Any, Any]


class Cost(NamedTuple):
    """Seconds that a process had a processor, and its peak of memory in MB."""

    seconds: float
    megabytes: float


def mixed(rng: np.random.Generator, rows: int) -> Iterator[tuple[str, Cells]]:
    """Yield columns of all kinds, 8% of the numbers, categories and dates missing."""
    for at in range(NUMBERS):
        yield f"n{at}", with_gaps(rng, numbers(rng, rows))
    for at in range(CATEGORIES):
        codes = rng.integers(0, 3 + 5 * at, rows)
        yield f"c{at}", with_gaps(rng, np.char.add(f"kind {at}-", codes.astype(str)))
    for at in range(BOOLEANS):
        yield f"b{at}", np.where(rng.random(rows) < 0.3, "yes", "no")
    for at in range(DATES):
        days = np.datetime64("2024-01-01") + rng.integers(0, 900, rows)
        yield f"d{at}", with_gaps(rng, days.astype(str))
    for at in range(TEXTS):
        words = rng.choice(WORDS, (rows, 5))
        yield f"t{at}", np.array([" ".join(line) for line in words.tolist()])


def only_numbers(rng: np.random.Generator, rows: int) -> Iterator[tuple[str, Cells]]:
    """Yield as many columns of numbers, none missing."""
    for at in range(COLUMNS):
        yield f"n{at}", numbers(rng, rows)


def numbers(rng: np.random.Generator, rows: int) -> Cells:
    """Return numbers as text."""
    return np.char.mod("%.3f", rng.normal(size=rows) * 10)


def with_gaps(rng: np.random.Generator, cells: Cells) -> Cells:
    """Return cells of which some are empty."""
    return np.where(rng.random(len(cells)) < MISSING, "", cells)


def write(path: Path, kind: Any, rows: int, console: Console) -> None:
    """Write a table in blocks; the label counts negative ones of two numbers, or is wrong."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file, Bar(path.name, -(-rows // BLOCK), console) as bar:
        writer = csv.writer(file)
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            columns = dict(kind(rng, count))
            sums = sum(np.char.startswith(columns[name], "-").astype(int) for name in ("n0", "n1"))
            labels = np.where(rng.random(count) < WRONG, rng.integers(0, 3, count), sums)
            if not first:
                writer.writerow([*columns, "label"])
            writer.writerows(zip(*columns.values(), (f"class {n}" for n in labels), strict=True))
            bar.advance()


def train(path: Path, folder: Path, threads: int) -> Cost:
    """Return what `tamis train FILE --label label` costs in a process of its own."""
    command = [sys.executable, "-m", "tamis.cli", "train", str(path), "--label", "label"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with (folder / f"{path.stem}.txt").open("w") as log:
        process = subprocess.Popen(
            [*command, "--out", str(folder / path.stem)], stdout=log, stderr=log, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit((folder / f"{path.stem}.txt").read_text())
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    console = Console()
    costs = {}
    with TemporaryDirectory() as name:
        for kind in (mixed, only_numbers):
            path = Path(name) / f"{kind.__name__}.csv"
            write(path, kind, options.rows, console)
            costs[kind.__name__] = train(path, Path(name), options.threads)
            console.print(f"{path.name}: {costs[kind.__name__]}")
            path.unlink()
    both, plain = costs["mixed"], costs["only_numbers"]
    rows: list[Row] = [
        ("machine", machine(), ""),
        ("rows", f"{options.rows:,} of {COLUMNS} mixed columns, 8% of most missing", ""),
        (
            "mixed columns: rows a second of a processor, all in all",
            f"{options.rows / both.seconds:.0f}",
            "",
        ),
        (
            "numbers alone: rows a second of a processor, all in all",
            f"{options.rows / plain.seconds:.0f}",
            "",
        ),
        (
            "mixed columns: rows a second over those of numbers",
            f"{plain.seconds / both.seconds:.2f}",
            ">= 0.5",
        ),
        ("mixed columns: peak of the process, MB", f"{both.megabytes:.0f}", "<= 2000"),
        ("numbers alone: peak of the process, MB", f"{plain.megabytes:.0f}", ""),
    ]
    save_rows(options.out / "tables.csv", rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
