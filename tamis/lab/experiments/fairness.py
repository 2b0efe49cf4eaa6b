"""Runs of OGRS without and with the constraint on group shares, and their table."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError
from tamis.lab.fairness import Result, Settings, methods, run_method
from tamis.monitoring.progress import Bar


def run(options: Namespace) -> int:
    """Run every method under every seed, print a table, write the numbers."""
    if options.seeds < 1 or options.slots <= Settings.warm_up:
        raise UsageError(f"--seeds is at least 1, and --slots more than {Settings.warm_up}.")
    torch.set_num_threads(1)  # one against two threads gives other bits, and is no slower here
    settings, console, results = Settings(slots=options.slots), Console(), []
    names = list(methods(settings))
    total = options.seeds * len(names) * settings.slots
    with Bar("fairness", total, console) as bar:
        for seed in range(options.seeds):
            for name in names:
                results.append(run_method(settings, name, seed, lambda _: bar.advance()))
    path = write(results, options.out)
    console.print(as_table(names, results))
    console.print(verdict(results))
    console.print(f"Numbers: {path}")
    return 0


def write(results: list[Result], folder: Path) -> Path:
    """Write one line a run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fairness.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["share", "held", "gap", "accuracy", "group_accuracy", "purity"]
        writer.writerow(["method", "seed", *names])
        for result in results:
            numbers = [f"{getattr(result, name):.4f}" for name in names]
            writer.writerow([result.method, result.seed, *numbers])
    return path


def as_table(names: list[str], results: list[Result]) -> Table:
    """Return a table of means over seeds."""
    table = Table(title="digits, a fifth of them faint; means over seeds")
    table.add_column("method")
    for title in ("gap in share", "accuracy", "accuracy on the faint", "purity"):
        table.add_column(title, justify="right")
    for name in names:
        mine = [result for result in results if result.method == name]
        table.add_row(
            name,
            f"{mean(result.gap for result in mine):.4f}",
            f"{mean(result.accuracy for result in mine):.4f}",
            f"{mean(result.group_accuracy for result in mine):.4f}",
            f"{mean(result.purity for result in mine):.4f}",
        )
    return table


def verdict(results: list[Result]) -> str:
    """Return a sentence about how far the gap fell, and its cost in accuracy."""
    plain, fair = (
        [result for result in results if result.method == name] for name in ("OGRS", "OGRS, fair")
    )
    factor = mean(r.gap for r in plain) / max(mean(r.gap for r in fair), 1e-9)
    points = 100 * (mean(r.accuracy for r in fair) - mean(r.accuracy for r in plain))
    return (
        f"The constraint makes the gap {factor:.1f} times smaller; accuracy {points:+.1f} points."
    )
