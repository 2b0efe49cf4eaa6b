"""What sources over a broker share: messages in batches, and reading on after an outage."""

from __future__ import annotations

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any, Literal, NamedTuple

from tamis.errors import TamisError
from tamis.sources.protocol import Batch, Decode, ReplacedError, SourceError

LOG = logging.getLogger("tamis.sources")
TICK = 0.5
"""Seconds that a fetch waits for messages: as long as closing may take."""
AWAY = 5.0
"""Seconds after which a broker that cannot be reached is not waited for by other readers."""
RETRY = 0.2
"""Seconds between two attempts to reach a broker."""

Start = Literal["first", "new"]
"""Where a reader without an offset begins that has its group to itself."""


@dataclass(frozen=True)
class Pace:
    """How messages become batches.

    A batch has `rows` messages, or those that came within `linger` seconds of its first; with
    infinity, batches are identical in every run. Reading ends after `patience` seconds without a
    message, and fails after `outage` seconds without the broker.
    """

    rows: int = 100
    linger: float = 0.1
    patience: float | None = None
    outage: float = 60.0


class Message(NamedTuple):
    """A record, its position, the offset after it, when it was made, and how many were lost."""

    record: Any
    position: Any
    offset: Any
    time: float | None
    lost: int = 0
    """Messages removed unread since the one before it."""


class BrokerUnavailableError(TamisError):
    """The broker cannot be reached, or has dropped this reader: join it again."""


class LostMessagesWarning(UserWarning):
    """A broker has removed messages that were not read: it keeps too few for this pace."""


def warn_of_lost(broker: object, what: str) -> None:
    """Warn that messages are lost for good."""
    warnings.warn(
        f"{broker!r} has removed messages before they were read: {what}.", LostMessagesWarning, 2
    )


class Broker(ABC):
    """A source over a broker: `join` and `fetch` are its client's, reading is the same for all."""

    idle = False
    """Whether the broker had nothing at the last fetch, or is away."""

    def __init__(self, decode: Decode, start: Start, pace: Pace | None, skip_lost: bool) -> None:
        self.decode = decode
        self.start = start
        self.pace = pace or Pace()
        self.skip_lost = skip_lost
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """Records of a batch."""
        return self.pace.rows

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield messages after an offset, without end."""
        return read_messages(self, offset, self.pace, self._stopped)

    def report_replaced(self, end: object, read: object) -> None:
        """Raise where the broker holds less than was read of it; or warn, to begin it again."""
        what = f"it ends at {end}, and was read up to {read} before"
        if not self.skip_lost:
            raise ReplacedError(f"{self}: {what}: it was lost or replaced.")
        warn_of_lost(self, f"{what}; it is read from its beginning")

    @abstractmethod
    def join(self, offset: Any) -> Any:
        """Connect, ready for what comes after the offset; return it, or where None begins."""

    @abstractmethod
    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for messages, in order and none twice; raise while the broker can send none."""


def import_client(module: str, name: str) -> Any:
    """Return the client library of a broker."""
    try:
        return import_module(module)
    except ImportError:
        raise SourceError(f"{name} needs its client: pip install 'tamis[brokers]'.") from None


def read_messages(
    broker: Broker, offset: Any, pace: Pace, stopped: threading.Event
) -> Iterator[Batch]:
    """Yield batches without end, through outages."""
    waiting: list[Message] = []
    joined = ever = False
    begun = last = now = monotonic()
    lost_at: float | None = None
    while not stopped.is_set():
        try:
            if not joined:
                offset = broker.join(offset)
                joined = ever = True
            left = begun + pace.linger - monotonic() if waiting else TICK
            fetched = broker.fetch(max(1, pace.rows - len(waiting)), min(max(left, 0.001), TICK))
            now, lost_at, broker.idle = monotonic(), None, not fetched
        except BrokerUnavailableError as error:
            joined, last = False, monotonic()
            if stopped.is_set():
                return
            if lost_at is None:
                lost_at = last
                LOG.warning("%r: %s; trying again", broker, error)
            broker.idle = last - lost_at > AWAY
            if not ever or last - lost_at > pace.outage:
                raise SourceError(f"{broker} cannot be reached: {error}.") from None
            stopped.wait(RETRY)
            continue
        if fetched:
            offset, last = fetched[-1].offset, now
            begun = begun if waiting else now
            waiting += fetched
        impatient = pace.patience is not None and now - last > pace.patience
        while len(waiting) >= pace.rows or (waiting and now - begun >= pace.linger):
            yield batch_of(waiting[: pace.rows])
            waiting = waiting[pace.rows :]
            begun = last = monotonic()  # however long the trainer took
        if impatient:
            if waiting:
                yield batch_of(waiting)
            return


def batch_of(messages: list[Message]) -> Batch:
    """Return messages as a batch."""
    times = [message.time for message in messages if message.time is not None]
    return Batch(
        [message.record for message in messages],
        [message.position for message in messages],
        messages[-1].offset,
        max(times, default=None),  # partitions of a topic are not in order of time
        sum(message.lost for message in messages),
    )
