"""Progress on a console that is no terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tamis.monitoring.progress import Bar


def test_names_are_printed_as_they_are() -> None:
    """What rich would take for markup or for an emoji is a user's file."""
    out = StringIO()
    with Bar("[/b] :bug:.csv", 2, Console(file=out, width=200)) as bar:
        bar.advance("[red]")
        bar.advance()
    assert "[/b] :bug:.csv: 1/2 slots" in out.getvalue()
    assert "[red]" in out.getvalue()
