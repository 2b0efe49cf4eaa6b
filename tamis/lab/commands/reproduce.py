"""tamis reproduce."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError
from tamis.lab.commands import paper
from tamis.lab.commands.asked import make_folder
from tamis.lab.synthetic import Run, Settings, Summary, draw_task, methods, run_method
from tamis.monitoring.progress import Bar

HELP = "Run an experiment of the paper again, with right data and right baselines."
EXAMPLES = """examples:
  tamis reproduce synthetic --out runs/synthetic
  tamis reproduce table --quick --data mnist
  tamis reproduce table --data cifar10 --methods OGRS naive --seeds 2 --processes 10 --limit 560
  tamis reproduce dynamic --seeds 2
  tamis reproduce page --out results/paper --page docs/results.md

table and dynamic add each run to curves.csv as it ends; what was stopped goes on where it stopped.
"""
WHAT = """synthetic: figure 2, two Gaussians; table: MNIST and CIFAR-10 at fixed clean ratios;
dynamic: CIFAR-10 in four parts; page: tables and figures of what was run, no training"""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    parser.add_argument("what", choices=EXPERIMENTS, help=WHAT)
    parser.add_argument("--out", type=Path, help="folder to write to (default in runs)")
    parser.add_argument("--seeds", type=int, help="runs of each method (default 20, 5, 2)")
    parser.add_argument("--slots", type=int, help="slots of each run (default 400, 10,000, 20,000)")
    paper.add_arguments(parser)


def run(options: Namespace) -> int:
    """Run the experiment that was asked for."""
    return EXPERIMENTS[options.what](options)


def run_synthetic(options: Namespace) -> int:
    """Run every method under every seed, show a table, write the folder."""
    try:
        from tamis.lab.pages.synthetic_page import summaries, write_synthetic
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'tamis[demo]'.") from None
    seeds, slots = options.seeds, options.slots
    settings = Settings(
        seeds=Settings.seeds if seeds is None else seeds,
        slots=Settings.slots if slots is None else slots,
    )
    if settings.seeds < 2:
        raise UsageError(f"A deviation needs --seeds of at least 2, got {settings.seeds}.")
    if settings.slots <= settings.warm_up:
        raise UsageError(
            f"The warm-up takes {settings.warm_up} slots: --slots {settings.slots} is too few."
        )
    folder = make_folder(options.out or Path("runs", options.what))
    console, started = Console(), perf_counter()
    torch.set_num_threads(1)  # one against two threads gives other bits, and is no slower here
    runs = run_all(settings, console)
    findings = write_synthetic(settings, runs, folder)
    console.print(as_table(settings, summaries(runs)))
    for finding in findings:
        console.print(f"- {finding}", highlight=False)
    took = perf_counter() - started
    console.print(f"Figure, numbers, findings: {folder}, after {took:.0f} s", highlight=False)
    return 0


EXPERIMENTS: dict[str, Callable[[Namespace], int]] = {
    "synthetic": run_synthetic,
    "table": paper.run_table,
    "dynamic": paper.run_dynamic,
    "page": paper.run_page,
}


def run_all(settings: Settings, console: Console) -> dict[str, list[Run]]:
    """Run every method under every seed."""
    selectors = methods(settings)
    runs: dict[str, list[Run]] = {name: [] for name in selectors}
    with Bar("synthetic", settings.seeds * len(selectors) * settings.slots, console) as bar:
        for seed in range(settings.seeds):
            task = draw_task(settings, seed)
            for name, selector in selectors.items():
                advance = partial(bar.advance, f"(seed {seed}, {name})")
                runs[name].append(run_method(settings, task, selector, advance))
    return runs


def as_table(settings: Settings, rows: Sequence[Summary]) -> Table:
    """Show how the methods did, over all seeds."""
    table = Table(
        title=f"two Gaussians, clean ratio {settings.clean_ratio}, {settings.seeds} seeds, "
        f"{settings.slots} slots",
        caption="After the last slot: accuracy, averaged, separation. After the warm-up: the rest.",
    )
    table.add_column("method")
    for name in ("accuracy", "averaged", "purity", "coverage", "stayed", "distinct", "separation"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.method,
            f"{row.accuracy_mean:.3f} ± {row.accuracy_std:.3f}",
            f"{row.accuracy_ema_mean:.3f} ± {row.accuracy_ema_std:.3f}",
            f"{row.purity:.3f}",
            f"{row.coverage:.3f}",
            "" if row.stayed is None else f"{row.stayed:.3f}",
            f"{row.distinct:.3f}",
            f"{row.separation:.3f}",
        )
    return table
