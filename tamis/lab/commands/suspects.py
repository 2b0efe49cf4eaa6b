"""tamis suspects."""

from __future__ import annotations

import csv
import io
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.table import Table

from tamis.checkpoint import write_atomically
from tamis.errors import UsageError
from tamis.lab.suspect_quality import NOISES, Found, Settings, measure
from tamis.monitoring.progress import Bar
from tamis.streams import digits, fashion_mnist, mnist

HELP = "Measure how well wrong labels are found, beside cleanlab on the same run."
EXAMPLES = """example:
  tamis suspects --data mnist --clean 0.7 --seeds 3

Trains once through the data, ranks all labels, and holds the ranking against the truth: average
precision, and precision among the first 100 and 1,000. Then the worst 500 are answered rightly."""
DATA = {"mnist": mnist, "fashion-mnist": fashion_mnist, "digits": digits}


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    add = parser.add_argument
    add("--data", choices=DATA, default="mnist", help="data set (default mnist)")
    add("--data-folder", type=Path, help="where data sets are (default: TAMIS_DATA)")
    add("--clean", type=float, default=0.7, help="share of right labels (default 0.7)")
    add("--noise", choices=NOISES, default="symmetric", help="how labels go wrong")
    add("--first-seed", type=int, default=0, help="the first seed (default 0)")
    add("--seeds", type=int, default=1, help="runs, each with its own seed (default 1)")
    add("--out", type=Path, help="CSV to write the numbers to")


def run(options: Namespace) -> int:
    """Measure, and print a table."""
    if not 0 < options.clean < 1 or options.seeds < 1:
        raise UsageError("--clean is a share between 0 and 1, and --seeds at least 1.")
    console = Console()
    torch.set_num_threads(1)
    data = DATA[options.data](options.data_folder)
    settings = Settings(options.noise, options.clean)
    found = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        slots = -(-len(data.labels) // settings.rows_per_slot)
        try:
            with Bar(f"seed {seed}", slots, console) as bar:
                found.append(measure(data, replace(settings, seed=seed), bar.advance))
        except ImportError as error:
            raise UsageError(str(error)) from None
    console.print(as_table(found, options.data))
    for one in found:
        gain = 100 * (one.review.after - one.review.before)
        console.print(
            f"Seed {one.settings.seed}: of the {one.review.rows} worst, {one.review.before:.1%} had"
            f" the right label, {one.review.after:.1%} after review: {gain:+.1f} points. "
            f"Accuracy of the model {one.accuracy:.3f}."
        )
    if options.out:
        write_atomically(options.out, to_csv(found, options.data).encode())
        console.print(f"Numbers: {options.out}")
    return 0


def as_table(found: Sequence[Found], data: str) -> Table:
    """Show the means over seeds."""
    settings = found[0].settings
    title = f"{data}, {settings.noise}, clean ratio {settings.clean_ratio}, {len(found)} seeds"
    table = Table(title=title)
    table.add_column("ranking")
    for name in ("average precision", "at 100", "at 1,000"):
        table.add_column(name, justify="right")
    for place, ranking in enumerate(found[0].rankings):
        rows = [one.rankings[place] for one in found]
        table.add_row(
            ranking.ranking,
            f"{mean(row.average_precision for row in rows):.5f}",
            f"{mean(row.at_100 for row in rows):.3f}",
            f"{mean(row.at_1000 for row in rows):.3f}",
        )
    return table


def to_csv(found: Sequence[Found], data: str) -> str:
    """Write every number that was measured."""
    out = io.StringIO(newline="")
    rows = [
        {
            "data": data,
            "noise": one.settings.noise,
            "clean_ratio": one.settings.clean_ratio,
            "seed": one.settings.seed,
            **{
                name: value if isinstance(value, str) else f"{value:.6f}"
                for name, value in asdict(ranking).items()
            },
            "reviewed": one.review.rows,
            "right_before": f"{one.review.before:.4f}",
            "right_after": f"{one.review.after:.4f}",
            "accuracy": f"{one.accuracy:.4f}",
        }
        for one in found
        for ranking in one.rankings
    ]
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
