"""Measurements of the regret of OGRS, and their tables."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from time import perf_counter

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError, needs_extra
from tamis.lab.regret import CASES, RANDOM, Growth, Result, Settings, run_case
from tamis.monitoring.progress import Bar

CLAIM = (
    "The paper claims O(sqrt(M)) for the Lagrangian regret. Its proof shows O(M), as any chain "
    "has: D^2 / (2 alpha epsilon) in lemma 2 does not fall with M."
)


def run(options: Namespace) -> int:
    """Measure the cases one after another, show tables, write the folder."""
    with needs_extra("demo"):
        from tamis.lab.pages.regret_page import finding, write_regret
    if options.seeds < 1 or options.chains < 1:
        raise UsageError("There is nothing to measure: --seeds and --chains are at least 1.")
    started = perf_counter()
    console = Console()
    torch.set_num_threads(1)  # one against two threads gives other bits
    settings = Settings(seeds=options.seeds, chains=options.chains)
    measured = []
    for case in CASES:
        with Bar(case.name, settings.seeds, console, "seeds") as bar:
            measured.append(run_case(settings, case, bar.advance))
    figure = write_regret(settings, [result for case in measured for result in case], options.out)
    for results in measured:
        console.print(as_table(settings, results))
    for results in measured:
        console.print(finding(settings, results))
    console.print(CLAIM)
    console.print(f"Figure, numbers, exponents: {figure} ({perf_counter() - started:.0f} s)")
    return 0


def as_table(settings: Settings, results: Sequence[Result]) -> Table:
    """Return a table of the powers of M, and of the price at the most steps with its bound."""
    table = Table(
        title=f"{results[0].case}, M = {settings.steps[0]} to {settings.steps[-1]}",
        caption="power of M with its 95% interval over all M, and below it from"
        f" M = {settings.late} on; highest price mu at M = {settings.steps[-1]}"
        " against lemma 2's bound, none where Slater's condition fails",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("setting")
    for name in ("Lagrangian regret", "local regret", "mu", "bound", "holds"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            result.way,
            as_cell(result.lagrangian),
            as_cell(result.local),
            *price_cells(result),
        )
    return table


def as_cell(growth: Growth) -> str:
    """Write two powers and their intervals, one below the other."""
    return f"{growth.all}\n{growth.late}"


def price_cells(result: Result) -> tuple[str, str, str]:
    """Write the highest price, its bound, and whether every chain at every M kept its own."""
    if result.way == RANDOM:
        return "", "", ""
    price, bound = f"{result.price[-1]:.2f}", f"{result.bound[-1]:.2f}"
    if not result.slater:
        return price, "none", "no"
    return price, bound, "yes" if result.within else "no"
