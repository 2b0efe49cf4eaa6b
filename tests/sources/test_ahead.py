"""The queue: nothing lost where it blocks, never above its cap, errors and ends come through."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tamis.sources import Batch, ReadAhead
from tamis.sources.ahead import STOP_SECONDS
from tests.support.wait import wait_until


class Counting:
    """Yields numbers, as fast as they are taken; its offset is the next number."""

    def __init__(self, count: int, rows: int = 5, error: Exception | None = None) -> None:
        self.count = count
        self.rows = rows
        self.error = error
        self.given = 0
        self.acknowledged: list[Any] = []
        self.stopped = threading.Event()

    def read(self, offset: Any = None) -> Iterator[Batch]:
        for first in range(offset or 0, self.count, self.rows):
            if self.stopped.is_set():
                return
            records = list(range(first, min(first + self.rows, self.count)))
            self.given = records[-1] + 1
            yield Batch(records, records, self.given, lost=1)
        if self.error:
            raise self.error

    def acknowledge(self, offset: Any) -> None:
        self.acknowledged.append(offset)

    def behind(self) -> int | None:
        return self.count - self.given

    def close(self) -> None:
        self.stopped.set()


def test_block_loses_nothing_and_offsets_are_of_what_was_taken() -> None:
    source = Counting(100)
    ahead = ReadAhead(source, most=20)
    taken: list[int] = []
    for batch in ahead.read():
        wait_until(lambda: ahead.held == 20 or source.given == 100)
        assert ahead.held <= 20
        taken += batch.records
        assert batch.offset == len(taken)  # though the source has given more
        assert source.given >= min(100, len(taken) + 15)
        assert ahead.behind() == 100 - source.given + ahead.held
    assert taken == list(range(100))
    assert ahead.dropped == 0
    ahead.close()


def test_it_goes_on_from_an_offset_and_after_a_break() -> None:
    ahead = ReadAhead(Counting(100), most=20)
    for batch in ahead.read(40):
        assert batch.records[0] == 40
        break
    assert [record for batch in ahead.read(45) for record in batch.records] == [*range(45, 100)]
    with pytest.raises(RuntimeError, match="cannot go back"):
        next(ahead.read(10))
    ahead.close()


def test_drop_oldest_keeps_the_newest() -> None:
    source = Counting(1000)
    ahead = ReadAhead(source, most=20, policy="drop oldest")
    reading = ahead.read()
    batches = [next(reading)]
    wait_until(lambda: source.given == 1000 and ahead._ended)
    assert ahead.held <= 20
    batches += reading
    taken = [record for batch in batches for record in batch.records]
    assert sum(batch.lost for batch in batches) == 200  # one for each that was read
    assert taken[-15:] == list(range(985, 1000))
    assert taken == sorted(set(taken))
    assert ahead.dropped == 1000 - len(taken)
    ahead.close()


def test_every_nth_thins_only_under_pressure() -> None:
    source = Counting(1000)
    ahead = ReadAhead(source, most=100, policy="every nth", nth=10)
    reading = ahead.read()
    batches = [next(reading)]
    wait_until(lambda: source.given == 1000 or ahead.held > 95)
    assert ahead.held <= 100
    batches += reading
    assert sum(batch.lost for batch in batches) == 200
    assert {len(batch) for batch in batches[:-1]} == {5}  # thinned ones are put together
    assert batches[-1].offset == 1000
    taken = [record for batch in batches for record in batch.records]
    assert taken[:50] == list(range(50))
    assert len(taken) + ahead.dropped == 1000
    assert taken == sorted(set(taken))
    assert ahead.dropped > 100
    ahead.close()

    slow = ReadAhead(Counting(50), most=100, policy="every nth")
    assert [record for batch in slow.read() for record in batch.records] == list(range(50))
    assert slow.dropped == 0
    slow.close()


def test_an_error_comes_after_what_was_read_before_it() -> None:
    ahead = ReadAhead(Counting(20, error=OSError("the disk is gone")), most=100)
    reading = ahead.read()
    assert [record for _ in range(4) for record in next(reading).records] == list(range(20))
    with pytest.raises(OSError, match="the disk is gone"):
        next(reading)
    ahead.close()


@pytest.mark.parametrize("taking", [True, False])
def test_closing_ends_both_sides(taking: bool) -> None:
    ahead = ReadAhead(Counting(10**9), most=10)
    reading = ahead.read()
    next(reading)
    wait_until(lambda: ahead.held == 10)  # the reader waits for room
    if taking:
        threading.Timer(0.05, ahead.close).start()
        for _ in reading:
            pass
    ahead.close()
    ahead.close()
    assert ahead._thread is not None
    assert not ahead._thread.is_alive()


def test_a_source_that_hangs_is_left_behind_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert STOP_SECONDS == 5  # as docs/sources.md has it
    monkeypatch.setattr("tamis.sources.ahead.STOP_SECONDS", 0.05)
    free = threading.Event()

    class Hanging(Counting):
        def read(self, offset: Any = None) -> Iterator[Batch]:
            yield Batch([0], [0], 1)
            free.wait()

    ahead = ReadAhead(Hanging(1))
    next(ahead.read())
    with pytest.warns(ResourceWarning, match="did not end within"):
        ahead.close()
    free.set()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="policy is one of block, drop oldest, every nth"):
        ReadAhead(Counting(1), policy="hope")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="holds 3 records, fewer than a batch of 5"):
        ReadAhead(Counting(1), most=3)


def test_acknowledging_is_passed_on() -> None:
    source = Counting(1)
    ahead = ReadAhead(source)
    ahead.acknowledge(7)
    assert source.acknowledged == [7]
