"""Two consumers that join, leave and are killed with -9, while records come and are removed."""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import random
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support import consume
from tests.support.brokers import TOPIC, Nats, Redis, record
from tests.support.faults.row import Row
from tests.support.wait import END, wait_until

BACKLOG, LOAD, STALLED = 400, 60, 20
"""Numbers that are kept waiting, those saved at the most between two faults, and looks in vain."""


class Shared(Protocol):
    """What two consumers read, each by an address of its own."""

    name: str
    removal: str
    addresses: list[str]

    def send(self, first: int, end: int) -> None:
        """Send the numbers of a range."""

    def remove(self, rng: random.Random) -> None:
        """Remove or rotate some of what was sent."""

    def close(self) -> None:
        """End the server, if there is one."""


class Consumer:
    """A process that trains and saves, again and again under the same name."""

    def __init__(self, address: str, state: Path) -> None:
        self.address = address
        self.state = state
        self.every = consume.EVERY
        self._process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.support.consume"])
        self._process = context.Process(
            target=consume.run, args=(self.address, self.state, self.every), daemon=True
        )
        self._process.start()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def failed(self) -> bool:
        ended = None if self._process is None else self._process.exitcode
        return ended not in (None, 0, -signal.SIGKILL, -signal.SIGTERM)

    def kill(self) -> bool:
        """Kill it with -9; return whether that is what ended it."""
        self._process.kill()
        self._process.join(END)
        return bool(self._process.exitcode == -signal.SIGKILL)

    def leave(self) -> None:
        """End it with SIGTERM, on which it saves and acknowledges."""
        self._process.terminate()
        self._process.join(END)
        assert self._process.exitcode in (0, -signal.SIGTERM), self.log()  # before it began

    def saved(self) -> dict[str, Any]:
        return consume.load(self.state)

    def log(self) -> str:
        return self.state.with_suffix(".log").read_text()

    def forget_log(self) -> None:
        self.state.with_suffix(".log").write_text("")


@dataclass(frozen=True)
class Outcome:
    """What came of it; a number is missing if no consumer has it in its saved state."""

    kills: int
    leaves: int
    removals: int
    sent: int
    trained: int
    twice: int
    missing: int
    reported: int

    @property
    def met(self) -> bool:
        return not self.twice and self.missing == self.reported


class Trial:
    """One source, two consumers, and a sequence of faults that a seed chooses."""

    def __init__(self, shared: Shared, folder: Path, seed: int) -> None:
        self.shared = shared
        self.consumers = [
            Consumer(address, folder / f"consumer-{which}.json")
            for which, address in enumerate(shared.addresses)
        ]
        self.rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
        self.sent = self.kills = self.leaves = self.removals = self.stalled = 0
        self.seen: list[int] = []

    def counts(self) -> list[int]:
        return [len(consumer.saved()["ids"]) for consumer in self.consumers]

    def top_up(self) -> None:
        """Send more where less than the backlog waits, or what waits is not for who is there."""
        lost = sum(consumer.saved()["lost"] for consumer in self.consumers)
        counts = self.counts()
        waiting = self.sent - lost - sum(counts)
        self.stalled = self.stalled + 1 if counts == self.seen else 0
        self.seen = counts
        if waiting < BACKLOG or self.stalled >= STALLED:
            self.send(max(BACKLOG - waiting, 0) + 20)

    def send(self, count: int) -> None:
        self.shared.send(self.sent, self.sent + count)
        self.sent += count

    def wait_for(self, reached: Callable[[], bool], load: bool = True) -> None:
        """Wait for a condition, while records come."""

        def met() -> bool:
            for consumer in self.consumers:
                if consumer.failed and "cannot be reached" in consumer.log():  # a busy machine
                    consumer.forget_log()
                    consumer.start()
                assert not consumer.failed, consumer.log()
            if load:
                self.top_up()
            return reached()

        wait_until(met, what=f"progress of {self.counts()} of {self.sent}")

    def wait_for_more(self, *which: Consumer) -> None:
        """Wait until each of some consumers has saved some more."""
        wanted = [len(one.saved()["ids"]) + self.rng.randint(1, LOAD) for one in which]
        self.wait_for(
            lambda: all(
                len(one.saved()["ids"]) >= least for one, least in zip(which, wanted, strict=True)
            )
        )

    def run(self, kills: int) -> Outcome:
        """Kill so many times, with leaving, joining and removing in between; then read all."""
        self.wait_for_first()
        while self.kills < kills:
            self.fault()
        self.wait_for_more(*self.consumers)  # so that the last losses are in a state
        self.finish()
        trained = Counter(one for consumer in self.consumers for one in consumer.saved()["ids"])
        reported = sum(consumer.saved()["lost"] for consumer in self.consumers)
        missing = len(set(range(self.sent)) - set(trained))
        twice = trained.total() - len(trained)
        faults = (self.kills, self.leaves, self.removals)
        return Outcome(*faults, self.sent, len(trained), twice, missing, reported)

    def wait_for_first(self) -> None:
        """Start both, one after the other, and wait for their first checkpoints."""
        for consumer in self.consumers:
            consumer.start()
            self.wait_for_more(consumer)

    def fault(self) -> None:
        """Kill one of them at any moment; it comes back at once, or after the other went on."""
        victim, other = self.rng.sample(self.consumers, 2)
        self.wait_for_more(self.rng.choice(self.consumers))
        self.kills += victim.kill()
        if self.rng.random() < 0.4:
            self.shared.remove(self.rng)
            self.removals += 1
        if self.rng.random() < 0.2:
            other.leave()
            self.leaves += 1
            self.send(BACKLOG)
        elif self.rng.random() < 0.5:
            self.wait_for_more(other)
        victim.start()
        if not other.alive:
            self.wait_for_more(victim)
            other.start()

    def finish(self) -> None:
        """Read all that was sent, one of them alone for the last part where they share."""
        for consumer in self.consumers:
            consumer.leave()
            consumer.every = 1
        self.send(BACKLOG)
        one, other = self.consumers
        one.address = one.address.replace("claim=never", "claim=0.2")
        one.start()
        if not one.address.startswith("redis"):  # where one claims what the other left
            other.start()

        def all_read() -> bool:
            saved = [consumer.saved() for consumer in self.consumers]
            return sum(len(set(one["ids"])) + one["lost"] for one in saved) >= self.sent

        try:
            self.wait_for(all_read, load=False)
        except TimeoutError as error:
            print(error)
        for consumer in self.consumers:
            if consumer.alive:
                consumer.leave()


class SharedRedis:
    """A group of Redis, whose stream is trimmed."""

    name = "Redis"
    removal = "trimmed"

    def __init__(self, folder: Path) -> None:
        self.server = Redis(folder)
        self.addresses = [
            f"{self.server.address}&consumer={name}&claim=never" for name in ("ann", "bob")
        ]

    def send(self, first: int, end: int) -> None:
        self.server.produce(first, threading.Event(), end)

    def remove(self, rng: random.Random) -> None:
        import redis

        with redis.Redis(port=self.server.port) as client:
            client.xtrim(TOPIC, maxlen=rng.randint(0, BACKLOG), approximate=False)

    def close(self) -> None:
        self.server.close()


class SharedNats:
    """A stream of NATS for each consumer, which are trimmed: a durable consumer has one reader."""

    name = "NATS"
    removal = "trimmed"

    def __init__(self, folder: Path) -> None:
        self.server = Nats(folder)
        self.streams = [f"{TOPIC}-{which}" for which in range(2)]
        self.addresses = [
            f"{self.server.url}?stream={stream}&durable=trainer" for stream in self.streams
        ]
        asyncio.run(self._with_client(self._make))

    def send(self, first: int, end: int) -> None:
        async def publish(jetstream: Any) -> None:
            for number in range(first, end):
                stream = self.streams[number % 2]
                await jetstream.publish(
                    stream, record(number), headers={"Nats-Msg-Id": str(number)}
                )

        asyncio.run(self._with_client(publish))

    def remove(self, rng: random.Random) -> None:
        stream, left = rng.choice(self.streams), rng.randint(0, BACKLOG // 8)
        asyncio.run(self._with_client(lambda stream_of: stream_of.purge_stream(stream, keep=left)))

    def close(self) -> None:
        self.server.close()

    async def _make(self, jetstream: Any) -> None:
        for stream in self.streams:
            await jetstream.add_stream(name=stream, subjects=[stream])

    async def _with_client(self, do: Callable[[Any], Awaitable[Any]]) -> None:
        import nats

        client = await nats.connect(self.server.url)
        await do(client.jetstream(timeout=END))
        await client.close()


class SharedFiles:
    """A file for each consumer, followed and rotated: whoever follows a file reads all of it."""

    name = "followed files"
    removal = "rotated"

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / "even.jsonl", folder / "odd.jsonl"]
        self.addresses = [str(path) for path in self.paths]

    def send(self, first: int, end: int) -> None:
        for which, path in enumerate(self.paths):
            with path.open("ab") as file:
                file.writelines(
                    record(number) + b"\n" for number in range(first, end) if number % 2 == which
                )

    def remove(self, rng: random.Random) -> None:
        """Rotate a file in one of four ways, and what was rotated before with it."""
        path = rng.choice(self.paths)
        self._shift(path)
        how = rng.choice(["rename", "copy and truncate", "compress", "replace"])
        if how == "rename":
            path.rename(f"{path}.1")
        elif how == "copy and truncate":
            shutil.copyfile(path, f"{path}.1")
            os.truncate(path, 0)
        elif how == "compress":
            compress(path, Path(f"{path}.1.gz"))
        else:
            path.rename(f"{path}.1")
            new = path.with_name(f".{path.name}")
            new.write_bytes(b"")
            new.replace(path)

    def close(self) -> None:
        """Leave the files."""

    def _shift(self, path: Path) -> None:
        """Rename rotated files, and compress some, as logrotate does."""
        for number in range(99, 0, -1):
            for ending in ("", ".gz"):
                old = Path(f"{path}.{number}{ending}")
                if old.exists():
                    old.rename(f"{path}.{number + 1}{ending}")
        second = Path(f"{path}.2")
        if second.exists():
            compress(second, Path(f"{second}.gz"))


def compress(path: Path, to: Path) -> None:
    """Compress as gzip does: the time stays that of the file, which is removed last."""
    times = path.stat()
    part = to.with_name(f".{to.name}")
    with path.open("rb") as file, gzip.open(part, "wb") as compressed:
        shutil.copyfileobj(file, compressed)
    os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))
    part.rename(to)
    path.unlink()


SHARED: tuple[type[SharedRedis] | type[SharedNats] | type[SharedFiles], ...] = (
    SharedRedis,
    SharedNats,
    SharedFiles,
)


def share(
    kind: type[SharedRedis] | type[SharedNats] | type[SharedFiles],
    folder: Path,
    kills: int,
    seed: int = 0,
) -> Row:
    """Return the row of one source: what was sent is trained on once, or reported as lost."""
    place = folder / "source"
    place.mkdir()
    shared = kind(place)
    try:
        outcome = Trial(shared, folder, seed).run(kills)
    finally:
        shared.close()
    return Row(
        f"two consumers of {kind.name} joining, leaving, killed with -9",
        kills,
        outcome.kills if outcome.met else 0,
        f"{outcome.kills} kills, {outcome.leaves} left and came back, {outcome.removals} times "
        f"{kind.removal}: {outcome.sent} sent, {outcome.trained} trained on, {outcome.twice} twice,"
        f" {outcome.missing} lost, {outcome.reported} reported as lost",
        "0 twice, all lost reported",
        outcome.met,
    )
