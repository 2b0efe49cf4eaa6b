"""Processes that run one cell after another; where one dies, its cell alone is lost."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, Generic, TypeVar

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure(Generic[C]):
    """A cell that could not be run, and why, in one line."""

    cell: C
    error: str


@dataclass(frozen=True)
class Deadline:
    """When to stop, in seconds from the start of this process's clock; None is never."""

    at: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Set it so many seconds from now."""
        return cls(None if seconds is None else monotonic() + seconds)

    @property
    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self.at is None else max(0.0, self.at - monotonic())

    def leaves(self, seconds: float) -> bool:
        """Return whether so many seconds are left, and more than none."""
        left = self.left
        return left is None or 0 < left >= seconds


def run_all(
    work: Callable[[C], R],
    cells: Iterable[C],
    jobs: int,
    deadline: Deadline = Deadline(),  # noqa: B008
    takes: Callable[[C], float] = lambda _: 0.0,
) -> Iterator[R | Failure[C]]:
    """Run cells in so many processes, or in this one if one is enough; they end in any order.

    At the deadline cells that still run are given up. One that `takes` more seconds than are left
    is not begun.
    """
    todo, idle, busy = deque(cells), list[Worker[C, R]](), dict[Any, Worker[C, R]]()
    if jobs == 1 and deadline.at is None:
        yield from (attempt(work, cell) for cell in todo)
        return
    try:
        while True:
            while todo and len(busy) < jobs:
                cell = todo.popleft()
                if deadline.leaves(takes(cell)):
                    worker = idle.pop() if idle else Worker(work)
                    worker.begin(cell)
                    busy[worker.pipe] = worker
            if not busy or not deadline.leaves(0):
                return
            for pipe in wait(list(busy), deadline.left):
                worker = busy.pop(pipe)
                outcome = worker.end()
                if worker.process.is_alive():
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*idle, *busy.values()):
            worker.process.terminate()


class Worker(Generic[C, R]):
    """A process of its own."""

    def __init__(self, work: Callable[[C], R]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def begin(self, cell: C) -> None:
        """Send a cell to the process."""
        self.cell = cell
        with suppress(OSError):  # it has died: `end` reports it
            self.pipe.send(cell)

    def end(self) -> R | Failure[C]:
        """Return the outcome of the cell."""
        try:
            outcome: R | Failure[C] = self.pipe.recv()
            return outcome
        except (EOFError, OSError):
            self.process.join()
            return Failure(self.cell, f"its process ended with code {self.process.exitcode}")


def serve(pipe: Connection, work: Callable[[C], R]) -> None:
    """Run the cells that come through a pipe, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    with suppress(EOFError, OSError):
        while True:
            pipe.send(attempt(work, pipe.recv()))


def attempt(work: Callable[[C], R], cell: C) -> R | Failure[C]:
    """Run a cell; an error in it ends nothing else."""
    try:
        return work(cell)
    except Exception as error:
        return Failure(cell, " ".join(f"{type(error).__name__}: {error}".split()))


def run_each(work: Callable[[C], R], cells: Sequence[C], jobs: int) -> Iterator[R]:
    """Yield what becomes of each cell, run here or in so many processes."""
    if jobs == 1:
        yield from map(work, cells)
        return
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(cells))) as pool:
        yield from pool.imap_unordered(work, cells)
