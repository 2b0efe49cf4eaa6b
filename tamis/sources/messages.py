"""What the brokers share: messages put together to batches, and outages sat out."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple, Protocol

from tamis.sources.protocol import Batch, SourceError

LOG = logging.getLogger("tamis.sources")
TICK = 0.5
"""Seconds that a broker is asked to wait for messages: as long as closing may take."""
RETRY = 0.2
"""Seconds between two attempts to reach a broker."""

Start = Literal["first", "new"]
"""Where a reader without an offset begins that has its group to itself."""


@dataclass(frozen=True)
class Pace:
    """How messages become batches.

    A batch has `rows` messages, or what there was `linger` seconds after its first; let that be
    infinite, and batches are cut alike in every run. Reading ends after `patience` seconds without
    a message, and fails after `outage` seconds without the broker.
    """

    rows: int = 100
    linger: float = 0.1
    patience: float | None = None
    outage: float = 60.0


class Message(NamedTuple):
    """A record, its position, the offset after it, and when it was made."""

    record: Any
    position: Any
    offset: Any
    time: float | None


class BrokerAwayError(Exception):
    """The broker cannot be reached, or has lost us: join it again."""


class MissedWarning(UserWarning):
    """A broker has removed messages that were not read: its limits are too tight for this pace."""


def warn_of_missed(broker: object, what: str) -> None:
    """Say that messages are gone for good."""
    warnings.warn(
        f"{broker!r} has removed messages before they were read: {what}.", MissedWarning, 2
    )


class Broker(Protocol):
    """What is asked of a broker's client."""

    def join(self, offset: Any) -> Any:
        """Connect and be ready for what comes after the offset; return it, or where None begins."""

    def fetch(self, count: int, seconds: float) -> list[Message]:
        """Wait for some messages, in order and none twice; Away while none can be sent yet."""


def read_messages(
    broker: Broker, offset: Any, pace: Pace, stopped: threading.Event
) -> Iterator[Batch]:
    """Yield batches for ever, through outages."""
    waiting: list[Message] = []
    joined = ever = False
    begun = last = now = monotonic()
    away: float | None = None
    while not stopped.is_set():
        try:
            if not joined:
                offset = broker.join(offset)
                joined = ever = True
            left = begun + pace.linger - monotonic() if waiting else TICK
            fetched = broker.fetch(max(1, pace.rows - len(waiting)), min(max(left, 0.001), TICK))
            now, away = monotonic(), None
        except BrokerAwayError as error:
            joined, last = False, monotonic()
            if stopped.is_set():
                return
            if away is None:
                away = last
                LOG.warning("%r: %s; trying again", broker, error)
            if not ever or last - away > pace.outage:
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
    """Put messages together."""
    return Batch(
        [message.record for message in messages],
        [message.position for message in messages],
        messages[-1].offset,
        messages[-1].time,
    )
