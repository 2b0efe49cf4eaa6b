"""The long form of the fault matrix: one line a row, and the table of docs/reliability.md.

python -m tests.support.faults.matrix [--quick] [--rows NAME ...] [--page]
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from time import monotonic

import torch

from tests.support.faults.damage import bit_flips, truncations
from tests.support.faults.disk import failing_disks
from tests.support.faults.hostile import hostile_checkpoints
from tests.support.faults.kills import kill_at_points, kill_at_random
from tests.support.faults.mutants import forgotten_keys
from tests.support.faults.numbers import non_finite_steps
from tests.support.faults.row import Row
from tests.support.faults.streams import many_rows, no_information, noise_burst

ROOT = Path(__file__).parents[3]
PAGE, RESULTS, SOURCES = (
    ROOT / name
    for name in (
        "docs/reliability.md",
        "results/reliability/results.csv",
        "results/reliability/sources.csv",
    )
)
START, END = "<!-- the matrix: written by python -m tests.support.faults.matrix -->", "<!-- end -->"
COLUMNS = [field.name for field in fields(Row)]

LONG: dict[str, Callable[[Path], Row]] = {
    "kills": lambda folder: kill_at_random(folder, 200),
    "points": lambda folder: kill_at_points(folder, 5),
    "keys": forgotten_keys,
    "flips": lambda folder: bit_flips(folder, 400),
    "truncations": lambda folder: truncations(folder, 100),
    "disk": lambda folder: failing_disks(folder, 50),
    "hostile": hostile_checkpoints,
    "numbers": non_finite_steps,
    "rows": lambda folder: many_rows(10_000_000),
    "burst": lambda folder: noise_burst(5),
    "information": lambda folder: no_information(5),
}
QUICK: dict[str, Callable[[Path], Row]] = LONG | {
    "kills": lambda folder: kill_at_random(folder, 20),
    "points": lambda folder: kill_at_points(folder, 1),
    "flips": lambda folder: bit_flips(folder, 40),
    "truncations": lambda folder: truncations(folder, 20),
    "disk": lambda folder: failing_disks(folder, 10),
    "rows": lambda folder: many_rows(1_000_000),
    "burst": lambda folder: noise_burst(1),
    "information": lambda folder: no_information(1),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows named, print each, and write file and page; 1 where a bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer trials; nothing is written")
    parser.add_argument("--rows", nargs="+", choices=LONG, default=list(LONG))
    parser.add_argument("--page", action="store_true", help="only write the page from the files")
    options = parser.parse_args(arguments)
    if options.page:
        write_page()
        return 0
    torch.set_num_threads(1)
    rows = {}
    for name in options.rows:
        started = monotonic()
        with tempfile.TemporaryDirectory() as folder:
            row = (QUICK if options.quick else LONG)[name](Path(folder))
        rows[row.fault] = {key: str(value) for key, value in asdict(row).items()}
        print(f"{row} [{monotonic() - started:.0f} s]", flush=True)
        if not options.quick:
            save(read(RESULTS) | rows)
            write_page()
    return int(any(row["met"] != "True" for row in rows.values()))


def read(path: Path) -> dict[str, dict[str, str]]:
    """Read rows by fault; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["fault"]: row for row in csv.DictReader(file)}


def save(rows: dict[str, dict[str, str]]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def table() -> str:
    """Make the page's table of both files: that of runs, and that of sources if there is one."""
    rows = {**read(RESULTS), **read(SOURCES)}.values()
    lines = [
        f"| {row['fault']} | {row['figure']} | {row['bar']} | "
        f"{'yes' if row['met'] == 'True' else '**no**'} |"
        for row in rows
    ]
    return "\n".join(["| fault | figure | bar | met |", "| --- | --- | --- | --- |", *lines])


def write_page() -> None:
    """Put the table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
