"""tamis lab late."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Train on labels that come late, twice or are withdrawn, beside the same labels on time."
EXAMPLES = """examples:
  tamis lab late --out results/late
  tamis lab late --data digits --slots 200 --late 20 100 --seeds 1

A label comes so many slots after its row, a fifth earlier or later; one in ten comes twice, one in
twenty is withdrawn. On time, each row comes in the slot in which its label does.
Results go to results.csv line by line; a stopped run continues there."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--data", choices=("digits", "mnist-once"), default="mnist-once", help="place of the board")
    add("--noise", choices=("symmetric", "pair"), default="symmetric", help="kind of noise")
    add("--clean", nargs="+", type=float, default=[0.7, 0.5], help="clean ratios")
    add("--late", nargs="+", type=int, default=[500, 5000], help="slots that labels are late")
    add("--slots", type=int, default=10_000, help="slots that rows come in (default %(default)s)")
    add("--seeds", type=int, default=3, help="runs of a cell (default 3)")
    add("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add("--out", type=Path, default=Path("runs/late"), help="folder to write to")
    add("--page", type=Path, help="Markdown page whose table is written again")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    from tamis.lab.experiments import late

    return late.run(options)
