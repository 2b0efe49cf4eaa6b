"""tamis demo."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Train six methods side by side on digits whose labels drift, and write a page about it."
EXAMPLES = "example:\n  tamis demo --out tamis-demo"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("tamis-demo"), help="folder to write to")
    add("--seed", type=int, default=0, help="of every random number (default 0)")
    add("--slots-per-row", type=int, default=1, help="slots until the next digit (default 1)")


def run(options: Namespace) -> int:
    """Run the methods, print a table, write the folder."""
    from tamis.lab.experiments import demo

    code = demo.run(options)
    options.results.update(page=options.out / "index.html")
    return code
