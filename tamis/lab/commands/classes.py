"""tamis lab classes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Measure how soon classes that appear in mid-stream are noticed and learned."
EXAMPLES = """examples:
  tamis lab classes --data digits --clean 0.7 0.5 --seeds 5 --out results/classes
  tamis lab classes --data mnist --before 500 --after 1500 --every 25 --seeds 3

Two classes come up after --before slots. A model that grows is compared with one that had outputs
for all classes from the start, on the same stream: slots until the new classes have a recall of 0.9
on test data, and recall of the others.
Results go to results.csv line by line; a stopped run continues there."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--data", choices=("mnist", "fashion-mnist", "digits"), default="digits", help="data set")
    add("--clean", type=float, nargs="+", default=[0.7], help="clean ratios (default 0.7)")
    add("--before", type=int, default=300, help="slots without the new classes (default 300)")
    add("--after", type=int, default=900, help="slots with them (default 900)")
    add("--every", type=int, default=5, help="slots from one test to the next (default 5)")
    add("--seeds", type=int, default=1, help="runs, each with its own seed (default 1)")
    add("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add("--out", type=Path, default=Path("runs/classes"), help="folder to write to")
    add("--page", type=Path, help="Markdown page whose table is written again")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")


def run(options: Namespace) -> int:
    """Run the missing cells, then print all results."""
    from tamis.lab.experiments import classes

    return classes.run(options)
