"""Faults of streams: brokers that go away, producers too fast, records of any kind.

python -m benchmarks.faults_sources [--short]
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from time import monotonic, sleep
from typing import get_args

from benchmarks.buffers import resident
from tamis.sources import Columns, DeadLetters, Feed, Files, Pace, Policy, ReadAhead
from tests.faults.row import Row
from tests.support.brokers import BROKERS, Server, record
from tests.support.fuzz_records import records

OUT = Path(__file__).parent.parent / "results" / "reliability" / "sources.csv"
COLUMNS = Columns(["a", "b"], label="kind", classes=2, id="id")
LOAD = 200
"""Messages that must come through between two restarts, so that each hits a stream under load."""


# Brokers that go away


@dataclass(frozen=True)
class Through:
    """What came through a row of faults."""

    faults: int
    sent: int
    lost: int
    duplicates: int

    @classmethod
    def of(cls, faults: int, sent: int, seen: Counter[int]) -> Through:
        """Compare the numbers seen with those that were sent."""
        lost = len(set(range(sent)) - set(seen))
        return cls(faults, sent, lost, sum(seen.values()) - len(seen))


def restart_under_load(server: Server, times: int, seed: int = 0) -> Through:
    """Kill a broker and start it again, while numbers are sent, read and acknowledged."""
    chance = random.Random(seed)  # noqa: S311 (no secret depends on it)
    seen: Counter[int] = Counter()
    feed = Feed(ReadAhead(server.source(Pace(rows=50, linger=0.05)), most=2_000), COLUMNS)
    stop = threading.Event()

    def consume() -> None:
        for turn, samples in enumerate(feed):
            seen.update(samples.ids.tolist())
            if turn % 5 == 0:
                feed.acknowledge()

    with ThreadPoolExecutor(2) as threads:
        sending = threads.submit(server.produce, 0, stop)
        consuming = threads.submit(consume)
        try:
            for _ in range(times):
                wait_for_more(seen, LOAD, consuming)
                server.kill()
                sleep(chance.uniform(0.1, 0.6))
                server.start()
            wait_for_more(seen, LOAD, consuming)
            stop.set()
            sent = sending.result()
            wait_for_more(seen, sent - len(seen), consuming)
            sleep(0.5)  # for what should not come
        except TimeoutError as error:
            print(error, file=sys.stderr)
        finally:
            stop.set()
            feed.close()
        consuming.result()
        return Through.of(times, sending.result(), seen)


def wait_for_more(seen: Counter[int], count: int, consuming: Future[None]) -> None:
    """Wait until so many more numbers have come through."""
    wanted, until = len(seen) + count, monotonic() + 60
    while len(seen) < wanted:
        if consuming.done():
            consuming.result()
            return
        if monotonic() > until:
            raise TimeoutError(
                f"nothing comes through: {wanted - len(seen)} of {count} are missing"
            )
        sleep(0.01)


def kill_the_consumer(address: str, folder: Path, total: int, times: int, seed: int = 0) -> Through:
    """Kill a consumer with -9, over and over, until its saved state holds all numbers."""
    chance = random.Random(seed)  # noqa: S311 (no secret depends on it)
    state = folder / "state.json"

    def saved() -> list[int]:
        return list(json.loads(state.read_text())["ids"]) if state.exists() else []

    kills, until = 0, monotonic() + 60 + 15 * times
    while monotonic() < until:
        before, wanted = len(saved()), chance.randint(1, max(1, total // (times + 1)))
        consumer = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.consume", address, str(state), str(total)]
        )
        try:
            while consumer.poll() is None and monotonic() < until:
                if kills < times and len(saved()) >= min(before + wanted, total - 1):
                    sleep(chance.uniform(0, 0.05))
                    consumer.kill()
                    kills += consumer.wait() == -9
                    break
                sleep(0.002)
            else:
                break
        finally:
            consumer.kill()
            consumer.wait()
    return Through.of(kills, total, Counter(saved()))


# A producer that is too fast

WRITER = """
import json, sys, time
path, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
started, number = time.monotonic(), 0
with open(path, "a") as file:
    while (gone := time.monotonic() - started) < seconds:
        for number in range(number, int(gone * rate)):
            row = {"a": number, "b": 1, "kind": number % 2, "id": number}
            file.write(json.dumps(row) + chr(10))
        number = int(gone * rate)
        file.flush()
        time.sleep(0.01)
"""


@dataclass(frozen=True)
class Flood:
    """How a queue stood a producer that was too fast."""

    cap: int
    highest: int
    taken: int
    dropped: int
    behind: int | None
    grown_mb: float


def flood(
    folder: Path, policy: Policy, seconds: float, rate: int = 1_000, cap: int = 5_000
) -> Flood:
    """Let a process write ten times as many rows a second as are taken."""
    path = folder / f"{policy.replace(' ', '-')}.jsonl"
    path.touch()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(10 * rate), str(seconds)]
    )
    ahead = ReadAhead(Files(path, rows=50, follow=True, poll=0.05), cap, policy)
    feed = Feed(ahead, COLUMNS)
    started, taken, highest, settled = monotonic(), 0, 0, 0
    memory = 0
    for samples in feed:
        taken += len(samples)
        highest = max(highest, ahead.held)
        gone = monotonic() - started
        if gone > seconds / 3 and not settled:
            gc.collect()
            settled = resident()
        if settled:
            memory = max(memory, resident())
        if gone > seconds:
            break
        sleep(max(0.0, taken / rate - gone))
    figures = feed.figures()
    feed.close()
    writer.kill()
    writer.wait()
    return Flood(cap, highest, taken, figures.dropped, figures.behind, (memory - settled) / 2**20)


# Records of any kind


def fuzz(folder: Path, count: int, seed: int = 0) -> Feed:
    """Feed records as strangers send them; the feed that is returned has counted them."""
    path = folder / "rows.jsonl"
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in records(count, seed))
    letters = DeadLetters(folder / "dead.jsonl", most_bytes=1_000_000)
    columns = replace(COLUMNS, classes=["ant", "bee"])
    feed = Feed(Files(path, rows=64), columns, dead_letters=letters, most_bad=1.0)
    good = sum(len(samples) for samples in feed)
    feed.close()
    if good != feed.figures().good:
        raise AssertionError(f"{good} rows came, and {feed.figures().good} were counted")
    return feed


# The matrix


def measure(short: bool) -> Iterator[Row]:
    """Yield the rows as they are done."""
    times, seconds, count = (2, 3.0, 10_000) if short else (20, 60.0, 100_000)
    for kind in BROKERS:
        if reason := kind.missing():
            yield Row(f"{kind.name} restarted under load", times, 0, reason, NOTHING, False)
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            through = restart_under_load(server, times)
            server.close()
        yield tell(f"{kind.name} restarted under load", times, through)
    for kind in BROKERS:
        if kind.missing():
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder))
            total = server.produce(0, threading.Event(), 200 * times)
            through = kill_the_consumer(server.address, Path(folder), total, times)
            server.close()
        yield tell(f"consumer of {kind.name} killed with -9", times, through)
    with tempfile.TemporaryDirectory() as folder:
        total = 200 * times
        (Path(folder) / "rows.jsonl").write_bytes(
            b"".join(record(number) + b"\n" for number in range(total))
        )
        through = kill_the_consumer(f"{folder}/rows.jsonl", Path(folder), total, times)
    yield tell("consumer of a file killed with -9", times, through)
    for policy in get_args(Policy):
        with tempfile.TemporaryDirectory() as folder:
            flooded = flood(Path(folder), policy, seconds)
        met = flooded.highest <= flooded.cap and flooded.grown_mb < MOST_GROWN
        yield Row(
            f"producer 10 times too fast for {seconds:.0f} s, {policy}", 1, int(met),
            f"queue {flooded.highest} of {flooded.cap}, memory +{flooded.grown_mb:.1f} MB, "
            f"{flooded.taken} taken, {flooded.dropped} dropped, {flooded.behind} behind",
            f"queue within its cap, memory +{MOST_GROWN:.0f} MB at the most", met,
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        figures = fuzz(Path(folder), count).figures()
    met = figures.good + figures.bad == figures.seen == count
    yield Row(
        "fuzzed records", count, figures.seen,
        f"{figures.good} good + {figures.bad} bad = {figures.seen}, 0 crashes",
        "0 crashes, good + bad = all", met,
    )  # fmt: skip


NOTHING = "0 lost, 0 duplicates"
MOST_GROWN = 5.0


def tell(fault: str, times: int, through: Through) -> Row:
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
