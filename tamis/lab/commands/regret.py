"""tamis lab regret."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Measure how the regret of OGRS grows with its steps, and draw it."
EXAMPLES = "example:\n  tamis lab regret --out runs/regret --seeds 3"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/regret"), help="folder to write to")
    add("--seeds", type=int, default=8, help="models and noises (default %(default)s)")
    add("--chains", type=int, default=64, help="chains a seed (default %(default)s)")


def run(options: Namespace) -> int:
    """Measure each case, print tables, write the folder."""
    from tamis.lab.experiments import regret

    return regret.run(options)
