"""Runs of the tracker and its alarm, and tables of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from statistics import mean

from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError
from tamis.lab.experiments.choices import make_folder, named
from tamis.lab.experiments.workers import run_each
from tamis.lab.rows import append, key, read
from tamis.lab.tracker import (
    DATA,
    RIGHT_KINDS,
    SELECTORS,
    Cell,
    Result,
    cells,
    false_rate,
    run_cell,
    scores,
)
from tamis.models import MODELS
from tamis.monitoring.progress import Bar


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    for flag in ("slots", "rows", "k", "seeds", "jobs"):
        if getattr(options, flag) < 1:
            raise UsageError(f"--{flag} is at least 1, got {getattr(options, flag)}.")
    (model,) = named(options.model, [model.__name__ for model in MODELS], "model")
    settings = Cell(
        data=options.data, model=model, slots=options.slots, rows=options.rows, k=options.k
    )
    wanted = cells(
        settings,
        named(options.selectors, list(SELECTORS), "selectors"),
        named(options.changes, list(RIGHT_KINDS), "changes"),
        options.seeds,
    )
    path, console = make_folder(options.out) / "results.csv", Console()
    done = {key(result, Cell) for result in read(path, Result)}
    missing = [cell for cell in wanted if key(cell, Cell) not in done]
    if missing:
        DATA[options.data](options.data_folder)  # missing data is reported before any run
        with Bar("tracker", len(missing), console, "runs") as bar:
            work = partial(run_cell, folder=options.data_folder, device=options.device)
            for result in run_each(work, missing, options.jobs):
                append(path, [result])
                bar.advance(result.change)
    chosen = {key(cell, Cell) for cell in wanted}
    results = [result for result in read(path, Result) if key(result, Cell) in chosen]
    console.print(ratio_table(results))
    console.print(alarm_table(results))
    console.print(findings(results), highlight=False)
    console.print(f"Results: {path}", markup=False, highlight=False)
    return 0


def ratio_table(results: Sequence[Result]) -> Table:
    """Return a table of means over seeds on streams that do not change."""
    table = Table(title="clean ratio, means over seeds", box=None, padding=(0, 1))
    for title in ("selector", "noise"):
        table.add_column(title)
    for title in ("clean", "error", "in band", "width", "accuracy"):
        table.add_column(title, justify="right")
    groups: dict[tuple[str, str, float], list[Result]] = {}
    for result in results:
        if result.change == "none":
            place = (result.selector, result.noise, result.clean_ratio)
            groups.setdefault(place, []).append(result)
    for (selector, noise, ratio), mine in groups.items():
        columns = (
            [getattr(r, name) for r in mine] for name in ("error", "held", "width", "accuracy")
        )
        table.add_row(selector, noise, f"{ratio:g}", *(f"{mean(column):.3f}" for column in columns))
    return table


def alarm_table(results: Sequence[Result]) -> Table:
    """Return a table of what the alarm found, beside one that fires at random as often."""
    table = Table(title="alarm, and a dummy that fires as often", box=None, padding=(0, 1))
    table.add_column("change")
    for title in ("runs", "alarm", "right kind", "slots late", "dummy", "right kind"):
        table.add_column(title, justify="right")
    for score in scores(results):
        numbers = (score.found, score.named)
        dummy = (score.dummy_found, score.dummy_named)
        table.add_row(
            score.change, str(score.runs), *map(share, numbers),
            "" if score.delay != score.delay else f"{score.delay:.0f}", *map(share, dummy),
        )  # fmt: skip
    return table


def share(value: float) -> str:
    """Write a share; nothing where there is none."""
    return "" if value != value else f"{value:.2f}"


def findings(results: Sequence[Result]) -> str:
    """Return sentences about the results."""
    steady = [result for result in results if result.change == "none"]
    steps = [result for result in results if result.change == "noise"]
    lines = [f"False alarms in 10,000 rows: {false_rate(results):.3f}."]
    if steady:
        error, held = mean(r.error for r in steady), mean(r.held for r in steady)
        lines.append(f"Mean error {error:.3f}; {100 * held:.0f}% of the bands hold the truth.")
    if steps:
        plain, by_alarm = max(r.followed for r in steps), max(r.followed_by_alarm for r in steps)
        lines.append(
            f"A step was followed to within 0.05 after at most {plain:.0f} slots,"
            f" and after {by_alarm:.0f} by the alarm, which forgets what was before."
        )
    repeats = sum(result.repeats for result in results)
    lines.append(f"Alarms after the first one for the same change: {repeats}.")
    return "\n".join(lines)
