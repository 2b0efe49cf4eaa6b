"""tamis lab reproduce."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Repeat an experiment of the paper, with correct data and correct baselines."
EXAMPLES = """examples:
  tamis lab reproduce synthetic --out runs/synthetic
  tamis lab reproduce table --quick --data mnist
  tamis lab reproduce table --data cifar10 --methods OGRS naive --seeds 2 --processes 10 --limit 560
  tamis lab reproduce dynamic --seeds 2
  tamis lab reproduce page --out results/paper --page docs/results.md

table and dynamic add each run to curves.csv as it ends; a stopped command continues there."""
WHAT = """synthetic: figure 2, two Gaussians; table: MNIST and CIFAR-10 at fixed clean ratios;
dynamic: CIFAR-10 in four parts; page: tables and figures of finished runs, no training"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("what", choices=("synthetic", "table", "dynamic", "page"), help=WHAT)
    add("--out", type=Path, help="folder to write to (default in runs)")
    add("--seeds", type=int, help="runs of each method (default 20, 5, 2)")
    add("--slots", type=int, help="slots of each run (default 400, 10,000, 20,000)")
    add("--quick", action="store_true", help="fewer slots, no ResNet: for a first look")
    add("--data", nargs="+", help="mnist, cifar10, digits (default: the paper's)")
    add("--methods", nargs="+", help="rows of the table in docs/results.md (default: all)")
    add("--clean-ratios", nargs="+", help="of the table (default .9 .7 .5 .3)")
    add("--readings", nargs="+", help="of dynamic: noise, clean (default: both)")
    add("--processes", type=int, default=2, help="runs at a time (default 2)")
    add("--limit", type=float, help="seconds after which to stop; the same command continues")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")
    add("--page", type=Path, help="Markdown page to write into, between marks")
    add("--no-page", action="store_true", help="run only: no tables, no figures")


def run(options: Namespace) -> int:
    """Run the chosen experiment."""
    from tamis.lab.experiments import paper, synthetic

    experiments = {
        "synthetic": synthetic.run,
        "table": paper.run_table,
        "dynamic": paper.run_dynamic,
        "page": paper.run_page,
    }
    return experiments[options.what](options)
