"""tamis lab bench."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Run all methods on one board: accuracy beside its cost and the side information it needs."
EXAMPLES = """examples:
  tamis lab bench --data digits --seeds 1 --slots 500
  tamis lab bench --methods "OGRS, ITLM, naive" --clean 0.5,0.3
  tamis lab bench --page docs/board.md
  tamis lab bench --list
  tamis lab bench --suite structure --data digits --methods "Plausible, BARE, naive, oracle"
  tamis lab bench --suite structure --list

Results go to results.csv line by line; a stopped run continues there. Cells that fail go to
failed.csv, and are tried again next time. The board of the chosen cells is board.csv, board.html,
board.png, and with --page a Markdown page, between the marks <!-- board --> and <!-- /board -->.
A suite is one table, between the marks of its name."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--methods", help="names, comma separated, as --list prints them (default: all)")
    add(
        "--suite",
        choices=("board", "structure", "blurry"),
        default="board",
        help="board: every combination of --data, --noise and --clean; structure: a list of cells"
        " with structured noise, long tails, few rows and falling clean ratios; blurry: cells of"
        " five tasks with blurred boundaries; of both these options choose (default board)",
    )
    add("--data", help="as --list prints them (default digits,mnist, or all of the suite)")
    add("--noise", help="kinds of label noise (default symmetric,pair, or all of the suite)")
    add(
        "--clean",
        dest="clean_ratios",
        help="clean ratios (default 0.9,0.7,0.5,0.3, or all of the suite)",
    )
    add("--seeds", type=int, default=3, help="runs of a cell (default 3)")
    add("--slots", type=int, help="slots of a run (default: by the data set)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: all cores)")
    add("--out", type=Path, default=Path("runs/bench"), help="folder to write to")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")
    add("--page", type=Path, help="Markdown page to write the board into")
    add(
        "--list",
        action="store_true",
        help="list the data, and the methods with what each needs; of a suite, the cells",
    )


def run(options: Namespace) -> int:
    """Run the missing cells, then write and print the board."""
    from tamis.lab.experiments import bench

    return bench.run(options)
