"""The demo: six methods one after another, a table, and a page about them."""

from __future__ import annotations

import warnings
from argparse import Namespace

import torch
from rich.console import Console
from rich.table import Table

from tamis.errors import needs_extra
from tamis.lab.demo import Demo, Result, Settings, prepare, run_method
from tamis.monitoring import CollapseWarning
from tamis.monitoring.progress import Bar


def run(options: Namespace) -> int:
    """Run the methods one after another, print a table, write the folder."""
    with needs_extra("demo"):
        from tamis.lab.pages.demo_page import log_path, write_demo
    console = Console()
    torch.set_num_threads(1)  # one against two threads gives other bits, and is no slower here
    demo = prepare(Settings(seed=options.seed, slots_per_row=options.slots_per_row))
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # printed below the table
        for name in demo.methods:
            with Bar(name, demo.slots, console) as bar:
                results.append(
                    run_method(demo, name, log_path(options.out, name), lambda _: bar.advance())
                )
    page = write_demo(demo, results, options.out)
    console.print(as_table(demo, results))
    for result in results:
        for text in result.warnings:
            console.print(f"Warning: {result.name}: {text}.")
    console.print(f"Page, plots, logs, suspects: {page}")
    return 0


def as_table(demo: Demo, results: list[Result]) -> Table:
    """Return a table of the methods."""
    ratios = ", ".join(map(str, demo.settings.clean_ratios))
    table = Table(title=f"digits, clean ratio {ratios}, {demo.slots} slots")
    table.add_column("method")
    for name in ("accuracy", "averaged", "purity", "coverage", "ms a slot"):
        table.add_column(name, justify="right")
    for result in results:
        tested = result.tested[-1]
        table.add_row(
            result.name,
            f"{tested.accuracy:.3f}",
            f"{tested.accuracy_ema:.3f}" if tested.accuracy_ema is not None else "",
            f"{result.purity:.3f}" if result.purity is not None else "",
            f"{result.coverage:.3f}",
            f"{1000 * result.seconds_per_slot:.1f}",
        )
    return table
