"""Progress with time left: a bar on a terminal, elsewhere a plain line at intervals."""

from __future__ import annotations

from time import monotonic, perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.text import Text

LINES = 5
QUIET, PRINT_EVERY, SHOW_EVERY = 2.0, 10.0, 0.5
"""Seconds before the first count of rows, and to the next: printed, or on a terminal."""


def as_time(seconds: float) -> str:
    """Return a time as people write it.

    >>> as_time(12.3), as_time(150), as_time(7500), as_time(200000)
    ('12 s', '2 min 30 s', '2 h 5 min', '2 d 7 h')
    """
    left = round(seconds)
    for unit, size, part, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if left >= size:
            return f"{left // size} {unit} {left % size // smaller} {part}"
    return f"{left // 60} min {left % 60} s" if left >= 60 else f"{left} s"


class Bar:
    """Shows how far a number of slots, or of other units, has come since it was started."""

    def __init__(
        self,
        title: str,
        total: int,
        console: Console,
        unit: str = "slots",
        *,
        started: float | None = None,
    ) -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done = 0
        self._console = console
        self._started = perf_counter() if started is None else started
        self._progress = Progress(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=total, note="")

    def advance(self, note: str = "", count: int = 1) -> None:
        """Count one more slot, or several; the note stands beside the count."""
        step = max(1, self.total // LINES)
        printed = self.done // step
        self.done += count
        self._progress.update(self._task, advance=count, note=note)
        if not self._console.is_terminal and self.done // step > printed:
            took = perf_counter() - self._started
            left = took / self.done * (self.total - self.done)
            self._console.print(
                f"{self.title}: {self.done}/{self.total} {self.unit}, {as_time(left)} left"
                + (f", {note}" if note else ""),
                markup=False,
                emoji=False,
            )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


class RowCount:
    """Shows how many rows, or other units, are done, once it has taken two seconds."""

    def __init__(self, title: str, console: Console, unit: str = "rows") -> None:
        self.title = title
        self.unit = unit
        self.console = console
        self._status = Status("", console=console)
        self._started = monotonic()
        self._next = self._started + QUIET

    def update(self, rows: int, total: int | None = None) -> None:
        """Show the number of rows, and of all of them where that is known, if it is time."""
        now = monotonic()
        if now < self._next:
            return
        terminal = self.console.is_terminal
        self._next = now + (SHOW_EVERY if terminal else PRINT_EVERY)
        text = f"{self.title}: {rows} {self.unit}"
        if total and rows:
            left = (now - self._started) * (total / rows - 1)
            text += f" of {total}, {as_time(left)} left"
        if terminal:
            self._status.update(Text(text))
            self._status.start()
        else:
            self.console.print(text, markup=False, emoji=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()
