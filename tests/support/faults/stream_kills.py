"""kill -9 of `tamis stream` at any slot, on each kind of source, and the run that is resumed."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.brokers import GROUP, KafkaMock, Nats, Redis, record
from tests.support.commands import Finished, run_command
from tests.support.faults.row import Row

SLOTS, PER_SLOT = 40, 10
ROWS = SLOTS * PER_SLOT
SAME = ("model.safetensors", "suspects.csv")


@contextmanager
def file(folder: Path) -> Iterator[list[str]]:
    yield [str(write(folder / "rows.jsonl", 0, ROWS))]


@contextmanager
def followed_folder(folder: Path) -> Iterator[list[str]]:
    for first in range(0, ROWS, ROWS // 4):
        write(folder / "rows" / f"{first:04d}.jsonl", first, first + ROWS // 4)
    yield [str(folder / "rows"), "--follow"]


def broker(kind: Callable[[Path], Redis | Nats | KafkaMock]) -> Callable[[Path], object]:
    """Return a source that starts a broker with all rows in it."""

    @contextmanager
    def opened(folder: Path) -> Iterator[list[str]]:
        server = kind(folder)
        try:
            server.produce(0, threading.Event(), ROWS)
            yield [server.address, "--linger", "inf"]
        finally:
            server.close()

    return opened


def write(path: Path, first: int, end: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(record(number) + b"\n" for number in range(first, end)))
    return path


SOURCES: Mapping[str, Callable[[Path], object]] = {
    "a file": file,
    "a followed folder": followed_folder,
    "Redis": broker(Redis),
    "NATS": broker(Nats),
    "Kafka's mock": broker(lambda folder: KafkaMock(folder, partitions=1)),
}


def kill_stream(kind: str, folder: Path, trials: int, seed: int = 0) -> Row:
    """Kill at two slots that the seed chooses, resume, and compare with a run that was not."""
    rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
    same = kills = 0
    place = folder / "source"
    place.mkdir(parents=True)
    with SOURCES[kind](place) as source:  # type: ignore[attr-defined]
        expect(stream(source, folder / "unbroken", "unbroken"), 0)
        for trial in range(trials):
            out = folder / f"trial-{trial}"
            for _ in range(2):
                after = rng.randint(1, SLOTS // 2 - 1)
                expect(stream(source, out, f"trial-{trial}", after), -signal.SIGKILL)
                kills += 1
            expect(stream(source, out, f"trial-{trial}"), 0)
            same += all(
                (out / name).read_bytes() == (folder / "unbroken" / name).read_bytes()
                for name in SAME
            )
    return Row(
        f"tamis stream on {kind} killed with -9",
        trials,
        same,
        f"{kills} kills, {same} of {trials} runs bit-identical to the unbroken one",
        "all",
        same == trials,
    )


def stream(source: list[str], out: Path, group: str, after: int = 0) -> Finished:
    """Run the command on rows of a group of its own, or resume it; kill it after so many slots."""
    address, *options = source
    return run_command(
        *("stream", address.replace(GROUP, group), *options, "--out", out, "--resume"),
        *("--inputs", "a", "b", "--label", "kind", "--classes", "0", "1", "--id", "id"),
        *("--rows-per-slot", PER_SLOT, "--slots", SLOTS, "--scale-rows", 50, "--save-every", 7),
        stop=signal.SIGKILL if after else None,
        after=after,
    )


def expect(finished: Finished, code: int) -> None:
    if finished.returncode != code:
        raise AssertionError(f"it ended with {finished.returncode}: {finished.printed}")
