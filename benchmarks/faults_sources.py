"""Faults of streams, in their long form: brokers, producers too fast, records of any kind.

python -m benchmarks.faults_sources [--short]
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import get_args

from tamis.sources import Policy
from tests.support.brokers import BROKERS, record
from tests.support.faults.row import Row
from tests.support.faults.sources import (
    Through,
    flood,
    fuzz,
    kill_the_consumer,
    restart_under_load,
)

OUT = Path(__file__).parent.parent / "results" / "reliability" / "sources.csv"


def measure(short: bool) -> Iterator[Row]:
    """Yield the rows as they are done."""
    times, taken, count = (2, 2_000, 10_000) if short else (20, 60_000, 100_000)
    for kind in BROKERS:
        if reason := kind.missing():
            yield Row(f"{kind.name} restarted under load", times, 0, reason, NOTHING, False)
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            through = restart_under_load(server, times)
            server.close()
        yield as_row(f"{kind.name} restarted under load", times, through)
    for kind in BROKERS:
        if kind.missing():
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            total = server.produce(0, threading.Event(), 200 * times)
            through = kill_the_consumer(server.address, Path(folder), total, times)
            server.close()
        yield as_row(f"consumer of {kind.name} killed with -9", times, through)
    with tempfile.TemporaryDirectory() as folder:
        total = 200 * times
        (Path(folder) / "rows.jsonl").write_bytes(
            b"".join(record(number) + b"\n" for number in range(total))
        )
        through = kill_the_consumer(f"{folder}/rows.jsonl", Path(folder), total, times)
    yield as_row("consumer of a file killed with -9", times, through)
    for policy in get_args(Policy):
        with tempfile.TemporaryDirectory() as folder:
            flooded = flood(Path(folder), policy, taken)
        met = flooded.highest <= flooded.cap and flooded.grown_mb < MOST_GROWN
        yield Row(
            f"producer 10 times too fast, {policy}", 1, int(met),
            f"queue {flooded.highest} of {flooded.cap}, memory +{flooded.grown_mb:.1f} MB, "
            f"{flooded.taken} taken, {flooded.dropped} dropped, {flooded.behind} behind",
            f"queue within its cap, memory +{MOST_GROWN:.0f} MB at the most", met,
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        figures = fuzz(Path(folder), count).stats()
    met = figures.good + figures.bad == figures.seen == count
    yield Row(
        "fuzzed records", count, figures.seen,
        f"{figures.good} good + {figures.bad} bad = {figures.seen}, 0 crashes",
        "0 crashes, good + bad = all", met,
    )  # fmt: skip


NOTHING = "0 lost, 0 duplicates"
MOST_GROWN = 5.0


def as_row(fault: str, times: int, through: Through) -> Row:
    """Make a row of what came through."""
    met = (through.faults, through.lost, through.duplicates) == (times, 0, 0)
    figure = f"{through.sent} sent, {through.lost} lost, {through.duplicates} duplicates"
    return Row(fault, times, through.faults if met else 0, figure, NOTHING, met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer of each, and no file")
    options = parser.parse_args()
    rows = []
    for row in measure(options.short):
        print(row, flush=True)
        rows.append(row)
    if not options.short:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(field.name for field in fields(Row))
            writer.writerows(astuple(row) for row in rows)
    sys.exit(0 if all(row.met for row in rows) else 1)


if __name__ == "__main__":
    main()
