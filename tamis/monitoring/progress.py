"""Progress with time left: a bar on a terminal, elsewhere a plain line at intervals."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 5


class Bar:
    """Shows how far a number of slots, or of other units, has come."""

    def __init__(self, title: str, total: int, console: Console, unit: str = "slots") -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.done = 0
        self._console = console
        self._started = perf_counter()
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

    def advance(self, note: str = "") -> None:
        """Count one more slot; the note stands beside the count."""
        self.done += 1
        self._progress.update(self._task, advance=1, note=note)
        if not self._console.is_terminal and self.done % max(1, self.total // LINES) == 0:
            took = perf_counter() - self._started
            left = took / self.done * (self.total - self.done)
            self._console.print(
                f"{self.title}: {self.done}/{self.total} {self.unit}, {left:.0f} s left"
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
