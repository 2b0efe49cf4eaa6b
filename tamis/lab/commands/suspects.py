"""tamis lab suspects."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Measure how well wrong labels are found, beside cleanlab on the same run."
EXAMPLES = """examples:
  tamis lab suspects --data mnist --clean 0.7 --seeds 3
  tamis lab suspects --calibration results/review --seeds 3 --page docs/methods/scores.md

Trains once through the data, ranks all labels, and compares the ranking with the true labels:
average precision, and precision among the first 100 and 1,000. Then the worst 500 are corrected.

With --calibration, measures instead how well the scores are calibrated, on the cells of the board
and on small tables: calibration.csv, reliability.csv and calibration.svg are written to its folder.
Cells that are there are not run again. With --page the means go between the marks <!-- scores -->
and <!-- /scores -->."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("--data", choices=("mnist", "fashion-mnist", "digits"), default="mnist", help="data set")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")
    add("--clean", type=float, default=0.7, help="clean ratio (default 0.7)")
    add("--noise", choices=("symmetric", "pair"), default="symmetric", help="kind of label noise")
    add("--first-seed", type=int, default=0, help="the first seed (default 0)")
    add("--seeds", type=int, default=1, help="runs, each with its own seed (default 1)")
    add("--out", type=Path, help="CSV to write the numbers to")
    add("--calibration", type=Path, metavar="FOLDER", help="measure calibration, and write it here")
    add("--cells", nargs="+", metavar="NAME", help="its data of the board and tables, by name")
    add("--page", type=Path, help="Markdown page to write its means into")


def run(options: Namespace) -> int:
    """Measure, and print a table."""
    from tamis.lab.experiments import score_quality, suspects

    return score_quality.run(options) if options.calibration else suspects.run(options)
