"""What a rank reads for one shard: an item at a time, by a thread, so that nobody waits long."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tamis.data import Events, Samples
from tamis.sources import Feed, Rejects
from tamis.training.positions import Named, Positioned

WAIT = 1.0
"""Seconds that a stream is waited for which has just had something."""


class QueuedRejects(Rejects):
    """Counts rejected rows, and keeps them for the first rank, which writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[Any]] = []

    def add(self, position: Any, reason: str, detail: str = "", record: Any = None) -> None:
        """Count one row, and keep it."""
        super().add(position, reason, detail, record)
        self.lines.append([position, reason, detail, record])

    def drain(self) -> list[list[Any]]:
        """Return the rows kept, and forget them."""
        lines, self.lines = self.lines, []
        return lines


class Item(NamedTuple):
    """Rows of a shard, their ids as text if they have any, the records, the offset after them."""

    samples: Samples
    names: Sequence[str] | None
    records: Mapping[int, Mapping[str, Any]]
    offset: Any


class ShardReader:
    """Reads the stream of one shard.

    `read` returns None where nothing is there: the stream has `ended`, or has nothing yet. One that
    is `idle` may have nothing for long, and is then waited for no longer; any other is waited for,
    however slow this machine is, so that shards advance side by side while they have rows.
    `offset` is that of the last rows that were trained on, or of the end.
    """

    def __init__(self, stream: Positioned, rejects: QueuedRejects, live: bool) -> None:
        self.stream = stream
        self.rejects = rejects
        self._live = live
        self.offset = stream.offset
        self.ended = False
        self.staged: Item | None = None
        self._wanted, self._there = threading.Semaphore(0), threading.Semaphore(0)
        self._items: Iterator[Named] | None = None
        self._found: Item | BaseException | None = None
        self._rejected: list[list[Any]] = []
        self._begun, self._wait = False, WAIT
        self._thread: threading.Thread | None = None

    @property
    def idle(self) -> bool:
        """Whether the stream is one without end that had nothing at the last look."""
        source = self.stream.source if isinstance(self.stream, Feed) else None
        return self._live and bool(getattr(source, "idle", True))

    def seek(self, offset: Any) -> None:
        """Continue from an offset."""
        self.stream.seek(offset)
        self.offset = offset

    def read(self, wait: float) -> Item | None:
        """Return the rows that are next, which stay so until `take`; raise what reading raised."""
        if self.staged or self.ended:
            return self.staged
        if not self._begun:
            self._begun = True
            self._start()
            self._wanted.release()
        if not self._there.acquire(timeout=max(wait, self._wait)):
            self._wait = 0.0 if self.idle else WAIT
            return None
        self._begun, self._wait = False, WAIT
        if isinstance(self._found, BaseException):
            raise self._found
        self.staged, self.ended = self._found, self._found is None
        if self.ended:
            self.offset = self.stream.offset  # what was rejected at the end is read, too
        return self.staged

    def take(self) -> Item | None:
        """Return the rows that `read` returned last, to be trained on."""
        item, self.staged = self.staged, None
        if item:
            self.offset = item.offset
            self._rejected += self.rejects.drain()
        return item

    def drain(self) -> list[list[Any]]:
        """Return the rows rejected before the offset, and forget them."""
        if not (self._begun or self.staged):
            self._rejected += self.rejects.drain()
        lines, self._rejected = self._rejected, []
        return lines

    def acknowledge(self) -> None:
        """Release what was saved: everything up to the offset."""
        if isinstance(self.stream, Feed):
            self.stream.acknowledge(self.offset)

    def stats(self) -> list[int | None] | None:
        """Return counts of a feed: records seen, bad, dropped, lost, and those that wait."""
        if not isinstance(self.stream, Feed):
            return None
        found = self.stream.stats()
        return [found.seen, found.bad, found.dropped, found.lost, found.behind]

    def close(self) -> None:
        """End reading."""
        self.stream.close()

    def _start(self) -> None:
        if self._thread is None:
            self._items = self.stream.named()
            self._thread = threading.Thread(target=self._work, name="tamis reads", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while self._wanted.acquire():
            try:
                self._found = self._next()
            except BaseException as error:  # the rank's own thread raises it
                self._found = error
            self._there.release()

    def _next(self) -> Item | None:
        samples, names = next(self._items or iter(()), (None, None))
        if samples is None:
            return None
        if isinstance(samples, Events):
            raise TypeError("Rows and labels that come apart are not for ranks.")
        records = getattr(self.stream, "arrived", {})
        return Item(samples, names, records, self.stream.offset)
