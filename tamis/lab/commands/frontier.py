"""tamis lab frontier."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Draw accuracy over passes: all methods get the same forward-equivalents for each row held."
EXAMPLES = """examples:
  tamis lab frontier --data digits --seeds 1 --passes 3,10
  tamis lab frontier --methods "Plausible, SSR, naive, oracle" --page docs/frontier.md

A forward pass of a row counts 1, a backward pass 2, whoever asks for it; passes are counted at the
models. Results go to results.csv as runs end; a stopped run continues there. The page has a table
and a figure for each data set, kind of noise and clean ratio."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--methods", help="names, comma separated, as tamis lab bench --list prints them")
    add("--data", default="digits,mnist", help="places of the board (default %(default)s)")
    add("--noise", default="symmetric", help="kinds of label noise (default %(default)s)")
    add("--clean", dest="clean_ratios", default="0.5", help="clean ratios (default %(default)s)")
    add(
        "--passes",
        default="3,10,30,100",
        help="forward-equivalents for each row held (default %(default)s)",
    )
    add("--seeds", type=int, default=2, help="runs of a cell (default %(default)s)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: all cores)")
    add("--out", type=Path, default=Path("runs/frontier"), help="folder to write to")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")
    add("--page", type=Path, help="Markdown page to write tables into")


def run(options: Namespace) -> int:
    """Run the missing cells, then write and print the tables."""
    from tamis.lab.experiments import frontier

    return frontier.run(options)
