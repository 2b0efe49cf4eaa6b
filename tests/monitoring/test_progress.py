"""Progress on a console that is no terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from tamis.monitoring.progress import Bar, RowCount


def test_names_are_printed_as_they_are() -> None:
    """What rich would take for markup or for an emoji is a user's file."""
    out = StringIO()
    with Bar("[/b] :bug:.csv", 2, Console(file=out, width=200)) as bar:
        bar.advance("[red]")
        bar.advance()
    assert "[/b] :bug:.csv: 1/2 slots" in out.getvalue()
    assert "[red]" in out.getvalue()


def test_rows_are_counted_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("tamis.monitoring.progress.monotonic", lambda: clock[-1])
    out = StringIO()
    with RowCount("reading [b].csv", Console(file=out, width=200)) as count:
        for seconds, rows in ((1.0, 10), (3.0, 30), (4.0, 40), (13.5, 135)):
            clock.append(seconds)
            count.update(rows, 540)
    assert out.getvalue().splitlines() == [
        "reading [b].csv: 30 rows of 540, 51 s left",
        "reading [b].csv: 135 rows of 540, 40 s left",
    ]


def test_slots_done_elsewhere_are_one_line_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rate is that since the others began, not since the bar was drawn."""
    monkeypatch.setattr("tamis.monitoring.progress.perf_counter", lambda: 30.0)
    out = StringIO()
    with Bar("others", 100, Console(file=out, width=200), started=10.0) as bar:
        bar.advance(count=50)
        bar.advance()
    assert out.getvalue().splitlines() == ["others: 50/100 slots, 20 s left"]
