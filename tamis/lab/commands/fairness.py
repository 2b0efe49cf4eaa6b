"""tamis lab fairness."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Compare OGRS with and without its constraint on groups, on a group of faint digits."
EXAMPLES = "example:\n  tamis lab fairness --seeds 5"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/fairness"), help="folder for the CSV")
    add("--seeds", type=int, default=5, help="runs of each method (default 5)")
    add("--slots", type=int, default=2000, help="slots of each run (default %(default)s)")


def run(options: Namespace) -> int:
    """Run every method under every seed, print a table, write the numbers."""
    from tamis.lab.experiments import fairness

    return fairness.run(options)
