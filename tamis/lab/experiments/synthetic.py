"""Runs of the paper's figure 2, and their table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError, needs_extra
from tamis.lab.experiments.choices import make_folder
from tamis.lab.synthetic import Run, Settings, Summary, draw_task, methods, run_method
from tamis.monitoring.progress import Bar


def run(options: Namespace) -> int:
    """Run every method under every seed, print a table, write the folder."""
    with needs_extra("demo"):
        from tamis.lab.pages.synthetic_page import summaries, write_synthetic
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
    """Return a table of the methods, over all seeds."""
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
