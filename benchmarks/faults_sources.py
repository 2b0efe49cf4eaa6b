"""Faults of streams, in their long form: brokers, producers too fast, records of any kind.

python -m benchmarks.faults_sources [--short] [--rows NAME ...]
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import get_args

from tamis.sources import Policy
from tests.support.brokers import BROKERS, record
from tests.support.faults.consumers import SHARED, share
from tests.support.faults.row import Row
from tests.support.faults.sources import (
    Through,
    flood,
    fuzz,
    kill_the_consumer,
    restart_under_load,
)
from tests.support.faults.stream_kills import SOURCES, kill_stream

OUT = Path(__file__).parent.parent / "results" / "reliability" / "sources.csv"
NOTHING = "0 lost, 0 duplicates"
MOST_GROWN = 5.0


def restarts(short: bool) -> Iterator[Row]:
    """Restart every broker under load."""
    times = 2 if short else 20
    for kind in BROKERS:
        fault = f"{kind.name} restarted under load"
        if reason := kind.missing():
            yield Row(fault, times, 0, reason, NOTHING, False)
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            through = restart_under_load(server, times)
            server.close()
        yield as_row(fault, times, through)


def kills(short: bool) -> Iterator[Row]:
    """Kill one consumer of each source, over and over."""
    times = 2 if short else 20
    total = 200 * times
    for kind in BROKERS:
        if kind.missing():
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            server.produce(0, threading.Event(), total)
            through = kill_the_consumer(server.address, Path(folder), total, times)
            server.close()
        yield as_row(f"consumer of {kind.name} killed with -9", times, through)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows.jsonl").write_bytes(
            b"".join(record(number) + b"\n" for number in range(total))
        )
        through = kill_the_consumer(f"{folder}/rows.jsonl", Path(folder), total, times)
    yield as_row("consumer of a file killed with -9", times, through)


def consumers(short: bool) -> Iterator[Row]:
    """Kill, end and start two consumers, while what they read is trimmed or rotated."""
    times = 4 if short else 30
    for kind in SHARED:
        with tempfile.TemporaryDirectory() as folder:
            yield share(kind, Path(folder), times)


def streams(short: bool) -> Iterator[Row]:
    """Kill `tamis stream` on each source."""
    for kind in SOURCES:
        with tempfile.TemporaryDirectory() as folder:
            yield kill_stream(kind, Path(folder), 1 if short else 5)


def floods(short: bool) -> Iterator[Row]:
    """Write ten rows for each that is taken."""
    for policy in get_args(Policy):
        with tempfile.TemporaryDirectory() as folder:
            flooded = flood(Path(folder), policy, 2_000 if short else 60_000)
        met = flooded.highest <= flooded.cap and flooded.grown_mb < MOST_GROWN
        yield Row(
            f"producer 10 times too fast, {policy}", 1, int(met),
            f"queue {flooded.highest} of {flooded.cap}, memory +{flooded.grown_mb:.1f} MB, "
            f"{flooded.taken} taken, {flooded.dropped} dropped, {flooded.behind} behind",
            f"queue within its cap, memory +{MOST_GROWN:.0f} MB at the most", met,
        )  # fmt: skip


def fuzzed(short: bool) -> Iterator[Row]:
    """Feed records of any kind."""
    count = 10_000 if short else 100_000
    with tempfile.TemporaryDirectory() as folder:
        figures = fuzz(Path(folder), count).stats()
    met = figures.good + figures.bad == figures.seen == count
    yield Row(
        "fuzzed records", count, figures.seen,
        f"{figures.good} good + {figures.bad} bad = {figures.seen}, 0 crashes",
        "0 crashes, good + bad = all", met,
    )  # fmt: skip


ROWS: Mapping[str, Callable[[bool], Iterator[Row]]] = {
    "restarts": restarts,
    "kills": kills,
    "consumers": consumers,
    "streams": streams,
    "floods": floods,
    "fuzzed": fuzzed,
}


def as_row(fault: str, times: int, through: Through) -> Row:
    """Make a row of what came through."""
    met = (through.faults, through.lost, through.duplicates) == (times, 0, 0)
    figure = f"{through.sent} sent, {through.lost} lost, {through.duplicates} duplicates"
    return Row(fault, times, through.faults if met else 0, figure, NOTHING, met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer of each, and no file")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    options = parser.parse_args()
    rows = []
    for name in options.rows:
        for row in ROWS[name](options.short):
            print(row, flush=True)
            rows.append(row)
            if not options.short:
                save(rows)
    sys.exit(0 if all(row.met for row in rows) else 1)


def save(rows: list[Row]) -> None:
    """Write rows to the file; others in it stay."""
    with OUT.open(newline="", encoding="utf-8") as file:
        known = {row["fault"]: row for row in csv.DictReader(file)}
    known |= {row.fault: {key: str(value) for key, value in asdict(row).items()} for row in rows}
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(known.values())


if __name__ == "__main__":
    main()
