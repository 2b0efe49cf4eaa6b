"""How messages become batches, by a broker made up for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

import pytest

from tamis.sources import Batch, Pace, SourceError
from tamis.sources import messages as module
from tamis.sources.messages import BrokerAwayError, Message, read_messages


class Scripted:
    """Answers as it is told: lists of numbers, or an outage; its offset is the last number."""

    def __init__(self, *answers: list[int] | None) -> None:
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
            raise BrokerAwayError("gone")
        if not answer:
            sleep(seconds)
        return [Message(number, number, number, None) for number in answer]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.02)
    monkeypatch.setattr(module, "RETRY", 0.01)


def read(broker: Scripted, **settings: Any) -> Iterator[Batch]:
    pace = Pace(**{"rows": 4, "linger": 0.05, "patience": 0.2} | settings)
    return read_messages(broker, None, pace, threading.Event())


def records(batches: Iterator[Batch]) -> list[list[int]]:
    return [batch.records for batch in batches]


def test_batches_are_full_or_have_lingered() -> None:
    broker = Scripted([1, 2], [3, 4], [5], [], [], [], [], [], [6])
    assert records(read(broker)) == [[1, 2, 3, 4], [5], [6]]
    assert broker.joined == [None]


def test_more_than_was_asked_for_is_kept() -> None:
    assert records(read(Scripted(list(range(1, 11))))) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_what_does_not_linger_is_given_at_the_end() -> None:
    assert records(read(Scripted([1], [], [2]), linger=float("inf"))) == [[1, 2]]


def test_an_outage_is_sat_out_and_joined_from_what_is_in_hand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Scripted([1, 2], None, None, None, [3, 4, 5], None, [6])
    assert records(read(broker)) == [[1, 2, 3, 4], [5, 6]]
    assert broker.joined == [None, 2, 2, 2, 5]
    assert len(caplog.records) == 2  # one line an outage


def test_an_outage_is_counted_from_its_start_and_not_from_a_slow_trainer() -> None:
    reading = read(Scripted([1, 2, 3, 4], None, [5]), outage=0.1)
    next(reading)
    sleep(0.3)
    assert next(reading).records == [5]
    with pytest.raises(SourceError, match="Scripted cannot be reached: gone"):
        list(read(Scripted([1], *[None] * 100), outage=0.1))


def test_patience_does_not_count_what_the_trainer_took() -> None:
    reading = read(Scripted([1, 2, 3, 4], [], [5]), patience=0.1)
    next(reading)
    sleep(0.2)
    assert next(reading).records == [5]


def test_stopping_ends_it_soon() -> None:
    stopped = threading.Event()
    reading = read_messages(Scripted([1, 2, 3, 4]), None, Pace(rows=4), stopped)
    next(reading)
    threading.Timer(0.05, stopped.set).start()
    started = monotonic()
    assert list(reading) == []
    assert monotonic() - started < 1
