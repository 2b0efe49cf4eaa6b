"""Measurements of how well wrong labels are found, and their table."""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import mean

import torch
from rich.console import Console
from rich.table import Table

from tamis.checkpoint import write_atomically
from tamis.errors import UsageError
from tamis.lab.suspect_quality import Found, Settings, measure
from tamis.monitoring.progress import Bar
from tamis.streams import digits, fashion_mnist, mnist

DATA = {"mnist": mnist, "fashion-mnist": fashion_mnist, "digits": digits}


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
    """Return a table of means over seeds."""
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
