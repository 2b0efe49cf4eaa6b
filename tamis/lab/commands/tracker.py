"""tamis lab tracker."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Measure how well the tracker follows a stream's clean ratio, and the alarm its changes."
EXAMPLES = """examples:
  tamis lab tracker --out results/tracker
  tamis lab tracker --data digits --slots 900 --rows 10 --seeds 1
  tamis lab tracker --data cifar10 --model resnet18 --device cuda --slots 8000 --k 32

Results go to results.csv line by line; a stopped run continues there."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add(
        "--data",
        choices=("digits", "mnist", "fashion_mnist", "cifar10"),
        default="mnist",
        help="(default %(default)s)",
    )
    add("--model", default="mlp", help="one of tamis list (default %(default)s)")
    add("--device", default="cpu", help="cpu or cuda (default %(default)s)")
    add("--selectors", default="naive,OGRS,Plausible", help="(default %(default)s)")
    add(
        "--changes",
        default="noise,rotated,permuted",
        help="in the middle of a stream: noise, rotated, inverted, permuted (default %(default)s)",
    )
    add("--slots", type=int, default=10_000, help="slots of a run (default %(default)s)")
    add("--rows", type=int, default=6, help="rows a slot (default %(default)s)")
    add("--k", type=int, default=10, help="picks a slot (default %(default)s)")
    add("--seeds", type=int, default=3, help="runs of a cell (default 3)")
    add("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add("--out", type=Path, default=Path("runs/tracker"), help="folder to write to")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    from tamis.lab.experiments import tracker

    return tracker.run(options)
