"""What a command prints: text for people, or for programs its results as one JSON object."""

from __future__ import annotations

import json
import math
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TextIO


class Results:
    """The results of a command by name: written once, if they are wanted.

    `file` is standard output, also for a command whose output is a file of its own, as CSV.
    """

    def __init__(self, file: TextIO, command: str = "", *, wanted: bool = False) -> None:
        self.file = file
        self.wanted = wanted
        self._found: dict[str, object] = {"command": command}
        self._written = False

    def update(self, **values: object) -> None:
        """Add results, in place of earlier ones of the same names."""
        self._found |= values

    def write(self) -> None:
        """Write all results as one line of JSON; a second call writes nothing."""
        if self.wanted and not self._written:
            self._written = True
            text = json.dumps(to_json(self._found), allow_nan=False, ensure_ascii=False)
            print(text, file=self.file, flush=True)


def to_json(value: object) -> object:
    """Return a value as JSON has it: paths as text, and null for a number that is not finite.

    >>> to_json({"out": Path("run"), "ratio": float("nan"), "band": (0.5, 1)})
    {'out': 'run', 'ratio': None, 'band': [0.5, 1]}
    """
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return [to_json(each) for each in value] if isinstance(value, Sequence) else str(value)


def add_output_options(parser: ArgumentParser, *, results: bool) -> None:
    """Add the options that choose what is printed; --json where a command has results to print."""
    group = parser.add_argument_group("output")
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")
    if not results:
        parser.set_defaults(json=False)
        return
    group.add_argument(
        "--json",
        action="store_true",
        help="print the results as one JSON object; text for people goes to standard error",
    )


@contextmanager
def open_output(options: Namespace) -> Iterator[Results]:
    """Send what is printed for people where the options ask, and yield where results go."""
    results = Results(sys.stdout, options.prog, wanted=options.json)
    with Path(os.devnull).open("w") as nowhere:
        people = nowhere if options.quiet else sys.stderr if options.json else sys.stdout
        with redirect_stdout(people):
            yield results
