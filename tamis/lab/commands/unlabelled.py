"""tamis lab unlabelled."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Train with missing labels: on all rows, and on the labelled ones alone."
EXAMPLES = """examples:
  tamis lab unlabelled --out results/unlabelled
  tamis lab unlabelled --data digits --labelled 0.2 --seeds 1

Results go to results.csv line by line; a stopped run continues there."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--data", nargs="+", choices=("mnist-once", "digits", "table"), default=["mnist-once"],
        help="streams, each seen once")  # fmt: skip
    add("--symmetric", nargs="*", type=float, default=[0.7, 0.5], help="clean ratios")
    add("--pair", nargs="*", type=float, default=[0.7], help="clean ratios under pair noise")
    add("--labelled", nargs="+", type=float, default=[0.5, 0.1], help="shares of labelled rows")
    add("--seeds", type=int, default=3, help="runs of a cell (default 3)")
    add("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add("--out", type=Path, default=Path("runs/unlabelled"), help="folder to write to")
    add("--page", type=Path, help="Markdown page whose table is written again")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    from tamis.lab.experiments import unlabelled

    return unlabelled.run(options)
