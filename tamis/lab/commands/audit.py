"""tamis lab audit."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "Run OGRS in its three settings, and an ablation of its default, beside the baselines."
EXAMPLES = """examples:
  tamis lab audit settings --out results/audit
  tamis lab audit ablation --jobs 2

Parts: settings (the paper's, the released and the default rule), ablation (the default with one
thing changed), bars (seeds on which nothing was tuned), price (100,000 slots). MNIST and CIFAR-10
are read from the data folder. Results go to PART.csv line by line; a stopped run continues there.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("part", choices=("settings", "ablation", "bars", "price"))
    add("--out", type=Path, default=Path("runs/audit"), help="folder for CSV files")
    add("--data-folder", type=Path, help="folder of the data sets (default: TAMIS_DATA)")
    add("--jobs", type=int, default=2, help="runs at a time (default 2)")


def run(options: Namespace) -> int:
    """Run the missing cells, then print the part."""
    from tamis.lab.experiments import audit

    return audit.run(options)
