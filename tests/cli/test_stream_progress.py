"""How a stream stands: rate, what waits, age; time left where it ends; silence."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from tamis.cli import stream_progress
from tamis.cli.stream_progress import Progress
from tamis.data import Slot
from tamis.sources import SourceStats
from tests.support.wait import wait_until

STATS = SourceStats(0, 0, 2, 0, 0, 0, 30, None)


class StandingFeed:
    """A feed of which only the counts are looked at."""

    def __init__(self) -> None:
        self.counts = STATS

    def stats(self) -> SourceStats:
        return self.counts


def lines(monkeypatch: pytest.MonkeyPatch, slots: int | None, late: float | None) -> list[str]:
    clock = [100.0]
    monkeypatch.setattr(stream_progress, "monotonic", lambda: clock[0])
    feed, out = StandingFeed(), StringIO()
    progress = Progress(feed, Console(file=out, width=200), slots)  # type: ignore[arg-type]
    for number in range(5):
        feed.counts = replace(STATS, seen=50 * number, late=late)
        progress.update(slot(number))
        clock[0] += 10
    return out.getvalue().splitlines()


def slot(number: int) -> Slot:
    return cast(Slot, SimpleNamespace(number=number, loss=0.5))


def test_where_there_is_no_end_rate_and_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, None, None)[-1] == (
        "slot 5, 200 records, 5 a second, 2 bad, 30 wait (6 s), loss 0.500"
    )


def test_where_there_is_an_end_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, 10, None)[-1] == (
        "slot 5 of 10, 50 s left, 200 records, 5 a second, 2 bad, 30 wait, loss 0.500"
    )


def test_the_age_of_the_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, None, 75.0)[-1].endswith("loss 0.500, newest 1 min 15 s old")


def test_silence_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_progress, "PRINT_EVERY", 0.01)
    out = StringIO()
    with Progress(StandingFeed(), Console(file=out, width=200)) as progress:  # type: ignore[arg-type]
        wait_until(lambda: "no record waits" in out.getvalue())
        progress.update(slot(0))
        wait_until(lambda: out.getvalue().count("no record waits") == 2)
    assert out.getvalue().count("no record waits") == 2
