"""Consumers that are killed, stopped and resumed while they train."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.faults.hour.senders import CLASSES
from tests.support.faults.hour.tape import Recorder, Tape
from tests.support.faults.hour.taped import run

TAPED = "tests.support.faults.hour.taped"
WAYS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
STATUS = {"kill -9": -9, "SIGTERM": 143, "Ctrl-C": 130}
WORDS = (
    *("--inputs", "x", "--label", "kind", "--classes", *CLASSES, "--id", "id", "--follow"),
    *("--scale-rows", "100", "--queue", "60", "--capacity", "4000"),
    *("--pool-size", "512", "--k", "16", "--save-every", "10"),
)

Note = Callable[..., None]
"""Writes down an event: what, who, and more."""


class Forked:
    """A process forked off one that has torch loaded: on a busy machine that saves a minute."""

    def __init__(self, output: Path, *words: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch._dynamo", "tamis.training.trainer", TAPED])
        arguments = (str(output), [str(word) for word in words])
        self._process = context.Process(target=run, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.exitcode

    def wait(self) -> int:
        """Return the exit status, once it has ended."""
        self._process.join()
        return self._process.exitcode or 0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def resident(pid: int) -> int | None:
    """Return the bytes of memory of a process; None where it has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Habits:
    """Slots from a start to the next fault, and ticks that a consumer then is down."""

    slots: tuple[int, int]
    down: tuple[int, int]
    long_down: tuple[int, int]


class Consumer:
    """One run of `tamis stream`, through all its processes."""

    def __init__(
        self,
        name: str,
        address: str,
        place: Path,
        run: Path,
        rows_per_slot: int,
        habits: Habits,
        seed: int,
    ) -> None:
        self.name = name
        self.run = run
        numbers = ["--rows-per-slot", str(rows_per_slot), "--seed", str(seed)]
        self.words = ["stream", address, *WORDS, *numbers]
        self.tape = Tape(place / f"{name}.tape.jsonl")
        self.output = place / f"{name}.txt"
        self.habits = habits
        self.rng = random.Random(f"{name} {seed}")  # noqa: S311
        self.process: Forked | None = None
        self.unbroken: Forked | None = None
        self.ended: dict[str, int] = {}
        self.restless = True
        self._way = ""
        self._due = 0
        self._noted = 0
        self._fault_after = 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def since_start(self) -> int:
        """Slots that the present process has trained."""
        started = self.tape.starts and self.process is not None
        now = self.tape.starts[-1] if started else None
        return now.slots if now and self.process and now.number == self.process.pid else 0

    def start(self, *more: object) -> None:
        words = [*self.words, "--out", self.run, "--resume", *more]
        self.process = Forked(self.output, self.tape.path, *words)
        self._fault_after = self.rng.randint(*self.habits.slots)

    def tick(self, tick: int, note: Note) -> None:
        """Note what has ended, start what is due, and strike where it is time."""
        self.tape.refresh()
        for start in self.tape.starts[self._noted :]:
            if start.slot is None:
                break
            note("resumed" if start.slot else "started", self.name, slot=start.slot)
            self._noted += 1
        if self.process is None:
            if tick >= self._due:
                self.start()
        elif (status := self.process.poll()) is not None:
            self._end(status, tick, note)
        elif self.restless and not self._way and self.since_start >= self._fault_after:
            self.strike(self.rng.choice(list(WAYS)), note)

    def strike(self, way: str, note: Note) -> None:
        """Send a signal."""
        assert self.process
        self._way = way
        self.process.send_signal(WAYS[way])
        self.tape.refresh()
        note(way, self.name, slot=self.tape.last)

    def _end(self, status: int, tick: int, note: Note) -> None:
        printed = self.output.read_text(errors="replace").strip().splitlines()[-1:]
        what = self._way
        if STATUS.get(what) != status:
            full = "No space left" in "".join(printed)
            what = "ended by the full disk" if full else f"ended with status {status}"
            note("ended", self.name, status=status, wanted=self._way, printed=printed)
        self.ended[what] = self.ended.get(what, 0) + 1
        span = self.habits.long_down if self.rng.random() < 0.1 else self.habits.down
        self.process, self._way = None, ""
        self._due = tick + self.rng.randint(*span)

    def stop(self) -> None:
        """Stop the process that waits for more."""
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def follow(self, sent: Path) -> None:
        """Start the unbroken run over what the tape has, as far as it is in a checkpoint."""
        folder = self.unbroken_folder
        words: list[Any] = [tape_of(folder), "--replay", self.tape.path, sent, self.run]
        output = folder.with_suffix(".txt")
        self.unbroken = Forked(output, *words, *self.words, "--out", folder)

    def end_unbroken(self) -> None:
        """Wait until the unbroken run has reached the end of the tape."""
        assert self.unbroken
        Recorder(self.tape.path).add({"end": True})
        if status := self.unbroken.wait():
            raise RuntimeError(f"{self.unbroken_folder} ended with status {status}.")

    @property
    def unbroken_folder(self) -> Path:
        return self.output.with_name(f"{self.name}-unbroken")


def tape_of(folder: Path) -> Path:
    """Return the path of the tape that belongs to an unbroken run."""
    return folder.with_suffix(".tape.jsonl")
