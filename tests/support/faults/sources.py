"""Faults of streams: brokers that go away, producers that are too fast, records of any kind."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import BinaryIO

from tamis.sources import Columns, Feed, Files, Pace, Policy, ReadAhead, Rejects
from tests.support.brokers import Server, record
from tests.support.fuzz_records import records
from tests.support.memory import resident
from tests.support.wait import wait_until

COLUMNS = Columns(["a", "b"], label="kind", classes=2, id="id")
LOAD = 200
"""Messages that must come through between two restarts, so that each hits a stream under load."""
BATCH, TOO_FAST = 50, 10
"""Rows of a batch, and rows written for each row taken."""


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
    rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
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
                sleep(rng.uniform(0.1, 0.6))
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
    wanted = len(seen) + count
    wait_until(
        lambda: len(seen) >= wanted or consuming.done(), what=f"the arrival of {count} more records"
    )


def kill_the_consumer(address: str, folder: Path, total: int, times: int, seed: int = 0) -> Through:
    """Kill a consumer with -9, over and over, until its saved state holds all numbers."""
    rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
    state, kills, ended = folder / "state.json", 0, False
    command = [sys.executable, "-m", "tests.support.consume", address, str(state), str(total)]
    while not ended:
        more = rng.randint(1, max(1, total // (times + 1)))
        enough = min(len(saved_ids(state)) + more, total - 1) if kills < times else None
        with subprocess.Popen(command) as consumer:
            try:
                wait_for_checkpoint(consumer, state, enough)
                if consumer.poll() is None:
                    sleep(rng.uniform(0, 0.05))
            finally:
                consumer.kill()
        kills += consumer.returncode == -9
        ended = consumer.returncode != -9
    return Through.of(kills, total, Counter(saved_ids(state)))


def saved_ids(state: Path) -> list[int]:
    return list(json.loads(state.read_text())["ids"]) if state.exists() else []


def wait_for_checkpoint(consumer: subprocess.Popen[bytes], state: Path, enough: int | None) -> None:
    """Wait until the state holds enough numbers or the consumer has ended."""
    wait_until(
        lambda: (
            consumer.poll() is not None or (enough is not None and len(saved_ids(state)) >= enough)
        ),
        what="a checkpoint of the consumer",
    )


# A producer that is too fast


@dataclass(frozen=True)
class Flood:
    """How a queue stood a producer that was too fast."""

    cap: int
    highest: int
    taken: int
    dropped: int
    behind: int | None
    grown_mb: float


def flood(folder: Path, policy: Policy, taking: int, cap: int = 5_000) -> Flood:
    """Write ten rows for every row taken, until so many are taken."""
    path = folder / f"{policy.replace(' ', '-')}.jsonl"
    ahead = ReadAhead(Files(path, rows=BATCH, follow=True, poll=0.01), cap, policy)
    feed = Feed(ahead, COLUMNS)
    taken = highest = settled = memory = written = 0

    def write(file: BinaryIO, count: int) -> int:
        file.writelines(record(number) + b"\n" for number in range(written, written + count))
        file.flush()
        return written + count

    def read_or_full() -> bool:
        full = policy != "drop oldest" and ahead.held > cap - 2 * BATCH
        return full or taken + ahead.held + ahead.dropped >= written - 2 * BATCH

    with path.open("wb") as file:
        written = write(file, TOO_FAST * BATCH)
        for samples in feed:
            taken += len(samples)
            written = write(file, TOO_FAST * len(samples))
            wait_until(read_or_full, what="reading ahead")
            highest = max(highest, ahead.held)
            if taken > taking / 3 and not settled:
                gc.collect()
                settled = resident()
            if settled:
                memory = max(memory, resident())
            if taken >= taking:
                break
    figures = feed.stats()
    feed.close()
    return Flood(cap, highest, taken, figures.dropped, figures.behind, (memory - settled) / 2**20)


# Records of any kind


def fuzz(folder: Path, count: int, seed: int = 0) -> Feed:
    """Feed records as strangers send them; the feed that is returned has counted them."""
    path = folder / "rows.jsonl"
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in records(count, seed))
    rejects = Rejects(folder / "rejects.jsonl", max_bytes=1_000_000)
    columns = replace(COLUMNS, classes=["ant", "bee"])
    feed = Feed(Files(path, rows=64), columns, rejects=rejects, most_bad=1.0)
    good = sum(len(samples) for samples in feed)
    feed.close()
    if good != feed.stats().good:
        raise AssertionError(f"{good} rows came, and {feed.stats().good} were counted")
    return feed
