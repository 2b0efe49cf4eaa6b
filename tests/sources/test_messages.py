"""How messages become batches, by a broker made up for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tamis.sources import Batch, Pace, SourceError
from tamis.sources import messages as module
from tamis.sources.messages import (
    RETRY,
    TICK,
    BrokerUnavailableError,
    Message,
    batch_of,
    read_messages,
)

Read = Callable[..., Iterator[Batch]]


class Clock(threading.Event):
    """Time that passes only where somebody waits; as an event, it stops a reader when set."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()


class Scripted:
    """Answers by a script: lists of numbers, or an outage; its offset is the last number."""

    def __init__(self, *answers: list[int] | None) -> None:
        self.clock = Clock()
        self.answers = list(answers)
        self.joined: list[Any] = []

    def __repr__(self) -> str:
        return "Scripted"

    def join(self, offset: Any) -> Any:
        self.joined.append(offset)
        return 0 if offset is None else offset

    def fetch(self, count: int, seconds: float) -> list[Message]:
        answer = self.answers.pop(0) if self.answers else []
        if answer is None:
            raise BrokerUnavailableError("gone")
        if not answer:
            self.clock.wait(seconds)
        return [Message(number, number, number, None) for number in answer]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[Batch]]:
    """Read by the broker's own clock."""

    def begin(broker: Scripted, **settings: Any) -> Iterator[Batch]:
        monkeypatch.setattr(module, "monotonic", broker.clock)
        pace = Pace(**{"rows": 4, "linger": 1.0, "patience": 4.0} | settings)
        return read_messages(broker, None, pace, broker.clock)

    return begin


def records(batches: Iterator[Batch]) -> list[list[int]]:
    return [batch.records for batch in batches]


def test_batches_are_full_or_have_lingered(read: Read) -> None:
    broker = Scripted([1, 2], [3, 4], [5], [], [], [], [], [], [6])
    assert records(read(broker)) == [[1, 2, 3, 4], [5], [6]]
    assert broker.joined == [None]


def test_more_than_was_requested_is_kept(read: Read) -> None:
    assert records(read(Scripted(list(range(1, 11))))) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_what_does_not_linger_is_given_at_the_end(read: Read) -> None:
    assert records(read(Scripted([1], [], [2]), linger=float("inf"))) == [[1, 2]]


def test_an_outage_is_sat_out_and_joined_from_what_is_in_hand(
    read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Scripted([1, 2], None, None, None, [3, 4, 5], None, [6])
    assert records(read(broker)) == [[1, 2, 3, 4], [5, 6]]
    assert broker.joined == [None, 2, 2, 2, 5]
    assert len(caplog.records) == 2  # one line an outage


def test_an_outage_is_counted_from_its_start_and_not_from_a_slow_trainer(read: Read) -> None:
    broker = Scripted([1, 2, 3, 4], None, [5])
    reading = read(broker, outage=2.0)
    next(reading)
    broker.clock.wait(10.0)
    assert next(reading).records == [5]


@pytest.mark.parametrize("seconds", [0.5, 2.0, 7.0])
def test_an_outage_is_waited_out_for_so_many_seconds(read: Read, seconds: float) -> None:
    short = Scripted([1, 2, 3, 4], *[None] * int(seconds / RETRY), [5])
    assert records(read(short, outage=seconds)) == [[1, 2, 3, 4], [5]]
    long = Scripted([1, 2, 3, 4], *[None] * 1000)
    reading = read(long, outage=seconds)
    next(reading)
    with pytest.raises(SourceError) as caught:
        next(reading)
    assert str(caught.value) == "Scripted cannot be reached: gone."
    assert seconds < long.clock.now < seconds + 2 * RETRY


def test_two_outages_are_not_added_up(read: Read) -> None:
    outage = [None] * 8
    broker = Scripted([1, 2], *outage, [3], *outage, [4])
    assert records(read(broker, outage=2.0, linger=60.0)) == [[1, 2, 3, 4]]


def test_linger_and_patience_are_in_seconds(read: Read) -> None:
    """A batch waits for what comes within `linger` of its first message, and no longer."""
    broker = Scripted([1], [], [2], [], [], [3])  # a fetch of nothing takes half a second
    reading = read(broker, linger=1.0, patience=3.0)
    assert next(reading).records == [1, 2]
    assert broker.clock.now == pytest.approx(1.0)
    assert next(reading).records == [3]
    assert broker.clock.now == pytest.approx(2.5)
    assert list(reading) == []
    assert 2.5 + 3.0 < broker.clock.now <= 2.5 + 3.0 + TICK


def test_the_time_of_a_batch_is_that_of_its_newest_message() -> None:
    """Partitions of a topic are not in order of time."""

    def batch(*times: float | None) -> Batch:
        return batch_of([Message(0, 0, 0, time) for time in times])

    assert batch(5.0, 9.0, 7.0).time == 9.0
    assert batch(None, 3.0, None).time == 3.0
    assert batch(None).time is None


def test_patience_does_not_count_what_the_trainer_took(read: Read) -> None:
    broker = Scripted([1, 2, 3, 4], [], [5])
    reading = read(broker, patience=2.0)
    next(reading)
    broker.clock.wait(10.0)
    assert next(reading).records == [5]


def test_stopping_ends_it(read: Read) -> None:
    broker = Scripted([1, 2, 3, 4], [5])
    reading = read(broker, patience=None)
    next(reading)
    broker.clock.set()
    assert list(reading) == []
    assert broker.answers == [[5]]  # it was not polled again
