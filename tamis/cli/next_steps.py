"""The last lines of a command: what to open, and which command comes next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_next(console: Console, **steps: object) -> None:
    """Print a line for each step, as `Open page.html` or `Review with: tamis watch run`.

    A name that ends in `_with` introduces a command. Lines are not folded, to be copied.
    """
    for name, what in steps.items():
        verb = name.replace("_", " ").capitalize()
        console.print(
            f"{verb}{':' if name.endswith('_with') else ''} {what}",
            soft_wrap=True,
            highlight=False,
        )


def command(*words: object) -> str:
    """Return a command line of tamis; names with spaces are quoted.

    >>> command("watch", "my run")
    "tamis watch 'my run'"
    """
    return shlex.join(["tamis", *map(str, words)])
