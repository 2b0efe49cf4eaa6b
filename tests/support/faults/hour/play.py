"""Everything at once: two sources, three consumers, and all that may go wrong with them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tamis.runs import Decisions, RunFiles
from tests.support.brokers import Redis
from tests.support.faults.disk import can_mount, real_disk
from tests.support.faults.hour.consumers import Consumer, Habits, resident
from tests.support.faults.hour.reviewer import Reviewer
from tests.support.faults.hour.senders import Entries, Folder, Ledger
from tests.support.faults.hour.tape import saved_slots
from tests.support.wait import END

PACE = 2.5
"""Seconds from one burst of rows to the next."""
BURST = (10, 20)
"""Rows of a burst to each source."""
BEFORE = 600
"""Rows that are there at the start."""
DISK = 262_144
"""Kilobytes of the disk that the runs are on."""
LEAD = 400
"""Without a clock: rows sent and not yet trained on, at the most."""
ROTATIONS = ("rename", "copytruncate", "copytruncate, gzip")


@dataclass(frozen=True)
class Plan:
    """How long, at which pace, and after how many ticks what happens; a tick is a burst."""

    ticks: int
    pace: float
    rows_per_slot: int
    rotation: int
    restart: int
    full: range
    habits: Habits

    @classmethod
    def of(cls, ticks: int, pace: float) -> Plan:
        """Spread events over so many ticks; without a pace, as fast as rows are trained on."""
        few = max(2, ticks // 60)
        full = min(int(60 / PACE), ticks // 6)
        return cls(
            ticks,
            pace,
            rows_per_slot=20 if pace else 5,
            rotation=min(50, max(8, ticks // 8)),
            restart=min(160, max(15, ticks // 4)),
            full=range(ticks // 2, ticks // 2 + full),
            habits=Habits((8, min(80, max(30, ticks // 2))), (0, min(few, 6)), (few, few + 20)),
        )


@dataclass
class Played:
    """What is left of it: consumers and reviewers that have ended, and what was seen."""

    folder: Path
    plan: Plan
    ledgers: dict[str, Ledger]
    consumers: list[Consumer]
    reviewers: list[Reviewer]
    events: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, str, int]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    full: bool = False
    seconds: float = 0.0
    mounted: bool = False

    def ledger_of(self, consumer: Consumer) -> Ledger:
        return self.ledgers["files" if consumer.name == "files" else "redis"]

    def sampled(self) -> None:
        """Note the memory of all that runs and is not about to start."""
        minute = self.seconds / 60
        for consumer in self.consumers:
            if consumer.process and consumer.since_start >= 5:
                self._sample(minute, consumer.name, resident(consumer.process.pid))
            if consumer.unbroken:
                self._sample(minute, f"{consumer.name} unbroken", resident(consumer.unbroken.pid))
        for reviewer in self.reviewers:
            self._sample(
                minute, f"page of {reviewer.consumer.name}", resident(reviewer.process.pid)
            )

    def _sample(self, minute: float, name: str, size: int | None) -> None:
        if size:
            self.memory.append((minute, name, size))
            with (self.folder / "memory.csv").open("a") as file:
                file.write(f"{minute:.2f},{name},{size}\n")


class Conductor:
    """Sends rows tick by tick, and does what the plan has for the tick."""

    def __init__(self, folder: Path, plan: Plan, seed: int, stack: ExitStack) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.plan = plan
        self.seed = seed
        disk, server = folder / "disk", folder / "redis"
        disk.mkdir(parents=True)
        server.mkdir()
        self.mounted = can_mount(folder)
        if self.mounted:
            stack.enter_context(real_disk(disk, DISK))
        self.disk = disk
        self.folder = Folder(folder / "rows")
        self.redis = Redis(server)
        stack.callback(self.redis.close)
        self.entries = Entries(self.redis)
        addresses = {"files": str(folder / "rows")}
        addresses |= {name: f"{self.redis.address}&consumer={name}" for name in ("a", "b")}
        consumers = [
            Consumer(name, address, folder, disk / name, plan.rows_per_slot, plan.habits, seed)
            for name, address in addresses.items()
        ]
        ledgers = {
            name: Ledger(folder / f"{name}.sent.jsonl", seed + at)
            for at, name in enumerate(("files", "redis"))
        }
        for ledger in ledgers.values():
            stack.callback(ledger.close)
        self.played = Played(folder, plan, ledgers, consumers, [], mounted=self.mounted)
        self._began = monotonic()
        self._tick = 0
        self._rotate_at = self._restart_at = self._first_new = 0
        self._up_at: int | None = None
        self._events = stack.enter_context((folder / "events.jsonl").open("w"))
        stack.callback(self._kill_all)

    def play(self) -> Played:
        """Play the plan to its end; then let the consumers read what is left, and end."""
        for ledger, sender in self._senders():
            sender.send(ledger.make(BEFORE))
        for consumer in self.played.consumers:
            consumer.start()
        while not self._all_begun():  # whoever comes first may have taken all that there was
            self._send()
            sleep(1)
        for consumer in self.played.consumers:
            consumer.follow(self.played.ledger_of(consumer).path)
        self._began = monotonic()
        self._rotate_at, self._restart_at = (
            self._next(gap) for gap in (self.plan.rotation, self.plan.restart)
        )
        while self._tick < self.plan.ticks:
            began = monotonic()
            self._send()
            self._disturb()
            self._review()
            self.played.seconds = began - self._began
            self.played.sampled()
            self._wait(began)
            self._tick += 1
            if self.plan.pace:  # on a busy machine some ticks are left out
                self._tick = max(self._tick, int((monotonic() - self._began) / self.plan.pace))
        self._settle()
        return self.played

    def note(self, what: str, who: str = "", **more: Any) -> None:
        """Write down an event."""
        self.played.events[what] += 1
        line = {"seconds": round(monotonic() - self._began, 1), "what": what, "who": who, **more}
        self._events.write(json.dumps(line) + "\n")
        self._events.flush()

    def _send(self) -> None:
        for ledger, sender in self._senders():
            sender.send(ledger.make(self.rng.randint(*BURST)))

    def _senders(self) -> list[tuple[Ledger, Folder | Entries]]:
        ledgers = self.played.ledgers
        return [(ledgers["files"], self.folder), (ledgers["redis"], self.entries)]

    def _next(self, gap: int) -> int:
        return self._tick + self.rng.randint(gap // 2 + 1, gap + gap // 2)

    def _disturb(self) -> None:
        tick, rng = self._tick, self.rng
        sleep(rng.uniform(0, min(0.3, self.plan.pace / 3)))  # so that signals hit any moment
        for consumer in self.played.consumers:
            consumer.tick(tick, self.note)
        if tick >= self._rotate_at and self._met():
            way = rng.choice(ROTATIONS)
            slot = self.played.consumers[0].tape.last
            self.note("rotation", "files", way=way, name=self.folder.rotate(way), slot=slot)
            self._rotate_at = self._next(self.plan.rotation)
            self._first_new = len(self.played.ledgers["files"].truth)
        if self._up_at is not None and tick >= self._up_at:
            self._start_redis()
        if tick >= self._restart_at:
            self.note("Redis killed", "redis")
            self.redis.kill()
            self._up_at = tick + rng.randint(1, 4)
            self._restart_at = self._next(self.plan.restart)
        if self.mounted and tick in self.plan.full:
            self._fill()
        elif self.played.full:
            self._free()

    def _all_begun(self) -> bool:
        for consumer in self.played.consumers:
            consumer.tape.refresh()
            if not consumer.running:
                raise RuntimeError(f"{consumer.name} has ended: {consumer.output.read_text()}")
        return all(consumer.tape.last >= 10 for consumer in self.played.consumers)

    def _met(self) -> bool:
        """Return whether the file that is to be rotated is in a checkpoint.

        One that came and went while nobody looked has no name that the source reads.
        """
        consumer = self.played.consumers[0]
        line = consumer.tape.slots.get(saved_slots(consumer.run) - 1)
        return line is not None and max(line["ids"]) >= self._first_new

    def _start_redis(self) -> None:
        self._up_at = None
        self.redis.start()
        self.note("Redis started", "redis")

    def _fill(self) -> None:
        """Leave no room on the disk, now and in every tick of that minute."""
        if not self.played.full:
            self.played.full = True
            slots = {one.name: one.tape.last for one in self.played.consumers}
            self.note("disk full", slots=slots)
        with (self.disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
            for size in (2**20, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def _free(self) -> None:
        (self.disk / "filler").unlink()
        self.played.full = False
        slots = {one.name: one.tape.last for one in self.played.consumers}
        self.note("disk free", slots=slots)

    def _review(self) -> None:
        """Open the pages at first, then decide now and then."""
        played = self.played
        if not played.reviewers:
            played.reviewers = [
                Reviewer(one, played.ledger_of(one), self.seed) for one in played.consumers
            ]
        elif played.reviewers:
            played.reviewers[self._tick % 3].review(self.note)

    def _wait(self, began: float) -> None:
        """Wait for the next tick, or, without a pace, until the consumers have caught up."""
        if self.plan.pace:
            sleep(max(0.0, began + self.plan.pace - monotonic()))
            return
        sent = sum(len(ledger.good) for ledger in self.played.ledgers.values())
        for number in count():
            taken = sum(len(one.tape.ids()) for one in self.played.consumers)
            down = any(not one.running for one in self.played.consumers)
            if sent - taken <= LEAD or down or number > END / 0.05:
                return
            sleep(0.05)
            for consumer in self.played.consumers:
                consumer.tape.refresh()

    def _settle(self) -> None:
        """End all faults, wait until every row is trained on, and end the consumers."""
        if self._up_at is not None:
            self._start_redis()
        if self.played.full:
            self._free()
        self.entries.send([])
        consumers, ledgers = self.played.consumers, self.played.ledgers
        for consumer in consumers:
            consumer.restless = False
        missing, since = -1, monotonic()
        while missing and monotonic() - since < END:
            for consumer in consumers:
                consumer.tick(10**9, self.note)
            files, *group = (set(consumer.tape.ids()) for consumer in consumers)
            left = len(ledgers["files"].good - files) + len(
                ledgers["redis"].good.difference(*group)
            )
            if left != missing:
                missing, since = left, monotonic()
            sleep(0.2)
        self.note("all sent", left=missing)
        self.played.seconds = monotonic() - self._began
        self.played.sampled()
        for consumer in consumers:
            consumer.stop()
        for consumer in consumers:
            consumer.start("--patience", 5)
        for consumer in consumers:
            assert consumer.process
            self.played.ends[consumer.name] = consumer.process.wait()
            consumer.tape.refresh()
            for at, line in enumerate(Decisions(consumer.run / RunFiles.decisions).lines):
                slot = consumer.tape.slot_of_decision(at)
                self.note(f"decision to {line.decision}", consumer.name, id=line.id, slot=slot)
        for reviewer in self.played.reviewers:
            reviewer.suspects("all")
            self.played.ends[f"page of {reviewer.consumer.name}"] = reviewer.close()

    def _kill_all(self) -> None:
        processes = [one.process for one in (*self.played.consumers, *self.played.reviewers)]
        for process in [*processes, *(one.unbroken for one in self.played.consumers)]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


@contextmanager
def played(folder: Path, plan: Plan, seed: int) -> Iterator[Played]:
    """Play all of it; the folder's disk is there until the block is left."""
    with ExitStack() as stack:
        conductor = Conductor(folder, plan, seed, stack)
        yield conductor.play()
