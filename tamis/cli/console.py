"""The console of commands that print names of a user's: classes, files, ids of rows."""

from __future__ import annotations

from rich.console import Console


def plain_console() -> Console:
    """Return a console that prints text as it is: `[/b]` and `:bug:` may be names of classes."""
    return Console(markup=False, emoji=False)
