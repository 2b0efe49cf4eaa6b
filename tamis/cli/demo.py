"""tamis demo."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Train six methods on digits whose labels go wrong, and write a page about them."
EXAMPLES = "example:\n  tamis demo --out tamis-demo"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("tamis-demo"), help="folder (default tamis-demo)")
    add("--seed", type=int, default=0, help="seed of all random numbers (default 0)")
    add("--slots-per-row", type=int, default=1, help="slots per arriving digit (default 1)")


def run(options: Namespace) -> int:
    """Run the methods, print a table, write the folder."""
    from tamis.lab.experiments import demo

    code = demo.run(options)
    options.results.update(page=options.out / "index.html")
    return code
