"""How a stream stands while it is trained on: rate, rows that wait, age; time left if it ends."""

from __future__ import annotations

from collections import deque
from threading import Event, Thread
from time import monotonic

from rich.console import Console
from rich.status import Status
from rich.text import Text

from tamis.data import Slot
from tamis.distributed.stream import LeadStream
from tamis.monitoring.progress import as_time
from tamis.sources import Feed, SourceStats

PRINT_EVERY, SHOW_EVERY = 10.0, 0.5
"""Seconds from one progress line to the next; on a terminal, from one update to the next."""
MEASURED = 20
"""Progress lines that the rate is taken over."""
OLD = 2.0
"""Age in seconds from which on it is printed."""


class Progress:
    """Shows how a stream stands now and then: asking a broker what waits takes time.

    A stream that is silent is reported, too: on a terminal the age goes on, elsewhere there is one
    line. `slots` is the number of slots planned, if any; beside what waits is the time it takes.
    """

    def __init__(self, feed: Feed | LeadStream, console: Console, slots: int | None = None) -> None:
        self.feed = feed
        self.console = console
        self.slots = slots
        self._status = Status("", console=console)
        self._printed = self._came = monotonic()
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=MEASURED)
        self._text, self._late = "", 0.0
        self._silent = False
        self._ended = Event()
        self._silence = Thread(target=self._report_silence, daemon=True)

    def update(self, slot: Slot) -> None:
        """Show slot, records, rate and what waits, if it is time."""
        now = monotonic()
        self._came, self._silent = now, False
        if not self._marks:
            self._marks.append((now, slot.number, self.feed.stats().seen))
        terminal = self.console.is_terminal
        if now - self._printed < (SHOW_EVERY if terminal else PRINT_EVERY):
            return
        self._printed, stats = now, self.feed.stats()
        self._marks.append((now, slot.number, stats.seen))
        self._text, self._late = self.describe(slot, stats), stats.late or 0.0
        if terminal:
            self._status.update(Text(self._text + self.age()))
        else:
            self.console.print(self._text + self.age())

    def describe(self, slot: Slot, stats: SourceStats) -> str:
        """Return how far the stream has come, in words."""
        (first, slots_before, seen_before), (now, *_) = self._marks[0], self._marks[-1]
        took = now - first
        done, seen = slot.number - slots_before, stats.seen - seen_before
        text = f"slot {slot.number + 1:,}"
        if self.slots:
            text += f" of {self.slots:,}"
            if done and took:
                text += f", {as_time(took / done * (self.slots - slot.number - 1))} left"
        text += f", {stats.seen:,} records"
        if took:
            text += f", {seen / took:,.0f} a second"
        text += f", {stats.bad:,} bad"
        if stats.behind is not None:
            text += f", {stats.behind:,} wait"
            if stats.behind and seen and not self.slots:
                text += f" ({as_time(stats.behind * took / seen)})"
        return text + ("" if slot.loss is None else f", loss {slot.loss:.3f}")

    def age(self) -> str:
        """Return how old the newest record is by now; empty where it has just come."""
        age = self._late + monotonic() - self._came
        return f", newest {as_time(age)} old" if age >= OLD else ""

    def _report_silence(self) -> None:
        """Show that nothing has come for a while; the source is not queried from this thread."""
        terminal = self.console.is_terminal
        while not self._ended.wait(SHOW_EVERY if terminal else PRINT_EVERY):
            silent = monotonic() - self._came
            if terminal and self._text:
                self._status.update(Text(self._text + self.age()))
            elif silent >= PRINT_EVERY and not self._silent:
                self._silent = True
                text = f"no record waits; the last slot ended {as_time(silent)} ago"
                if terminal:
                    self._status.update(Text(text))
                else:
                    self.console.print(text)

    def __enter__(self) -> Progress:
        self._status.start()
        self._silence.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._silence.join()
        self._status.stop()
