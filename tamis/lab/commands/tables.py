"""tamis lab tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Compare with scikit-learn's models and with cleanlab on tables whose labels are wrong."
EXAMPLES = """examples:
  tamis lab tables --tables iris wine --seeds 1 --out results/tables
  tamis lab tables --out results/tables --page docs/compare.md

Tables of scikit-learn and River, and made ones of mixed columns; 20% and 40% of the labels wrong,
symmetric and class-dependent. Each cell is a line of tables.csv; cells that are there are not run
again. With --page the means go between the marks <!-- tables --> and <!-- /tables -->."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--tables", nargs="+", metavar="NAME", help="tables by name (default: all)")
    add("--methods", nargs="+", metavar="NAME", help="methods by name (default: all)")
    add("--first-seed", type=int, default=0, help="the first seed (default 0)")
    add("--seeds", type=int, default=5, help="runs of a cell, each with its own seed (default 5)")
    add("--jobs", type=int, default=1, help="processes, one thread each (default 1)")
    add("--minutes", type=float, default=1e4, help="stop after so many; go on by the same command")
    add("--out", type=Path, default=Path("tables"), help="folder of tables.csv (default tables)")
    add("--page", type=Path, help="Markdown page to write the means into")
    add("--front", type=Path, metavar="FOLDER", help="write README.md and docs/index.md there, too")


def run(options: Namespace) -> int:
    """Run the cells that are missing, print the means, and write them into a page."""
    from tamis.lab.experiments import tables

    return tables.run(options)
