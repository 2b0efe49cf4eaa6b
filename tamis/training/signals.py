"""Ctrl-C and SIGTERM as a request to stop, so that the slot in progress is finished and saved."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

STOP_WITHIN = 5.0
"""Seconds from a signal to the end: whoever sends SIGTERM sends SIGKILL before long."""


class Closable(Protocol):
    """Something whose `close` ends a wait for records."""

    def close(self) -> None:
        """End any wait soon; any thread may call it."""


class StopSignal:
    """Notes the first Ctrl-C or SIGTERM while it is entered; a second one interrupts at once.

    `number` is the signal that came, 0 before. Only the main thread may handle signals; in any
    other thread nothing is installed.
    """

    def __init__(self) -> None:
        self.number = 0
        self.deadline = 0.0
        self._arrived = Event()
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.number != 0

    @property
    def overdue(self) -> bool:
        """Whether a signal came and its deadline is about to pass."""
        return bool(self) and monotonic() > self.deadline - 1

    @contextmanager
    def closing(self, source: Closable) -> Iterator[None]:
        """Close a source when a signal comes: one that waits for records would not notice."""
        over = Event()

        def wait() -> None:
            self._arrived.wait()
            if not over.is_set():
                source.close()

        thread = Thread(target=wait, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            if not self:
                self._arrived.set()
                thread.join()
                self._arrived.clear()

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self:
            raise KeyboardInterrupt
        self.number, self.deadline = number, monotonic() + STOP_WITHIN
        self._arrived.set()
