"""Runs on streams in which labels are missing, and the table of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from statistics import mean

from rich.console import Console

from tamis.errors import UsageError
from tamis.lab.experiments.choices import make_folder
from tamis.lab.experiments.workers import run_each
from tamis.lab.pages.markdown import put_between, read_page
from tamis.lab.rows import append, key, read
from tamis.lab.unlabelled import ALL, ARMS, PLACES_ONCE, Cell, Result, cells, run_cell
from tamis.monitoring.progress import Bar

HEAD = (
    "| stream | clean ratio | labelled | all labels | left out | used | guesses that are right |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
)


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    shares = [*options.symmetric, *options.pair, *options.labelled]
    if min(options.seeds, options.jobs) < 1 or not all(0 < share <= 1 for share in shares):
        raise UsageError("--seeds and --jobs are at least 1, shares above 0 and up to 1.")
    streams = [("symmetric", ratio) for ratio in options.symmetric]
    streams += [("pair", ratio) for ratio in options.pair]
    wanted = [
        cell
        for data in options.data
        for cell in cells(Cell(data), streams, options.labelled, options.seeds)
    ]
    path, console = make_folder(options.out) / "results.csv", Console()
    for data in options.data:
        PLACES_ONCE[data]().load(options.data_folder)  # missing data is reported before any run
    results = complete(wanted, options)
    text = "\n".join((*HEAD, *lines(results)))
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if options.page:
        page = put_between(read_page(options.page, "unlabelled"), text, "unlabelled")
        options.page.write_text(page)
    console.print(f"Results: {path}", markup=False, highlight=False)
    return 0


def complete(wanted: Sequence[Cell], options: Namespace) -> list[Result]:
    """Run the cells that have no result yet, and return the results of all."""
    path, chosen = options.out / "results.csv", {key(cell, Cell) for cell in wanted}
    done = {key(result, Cell) for result in read(path, Result)}
    missing = [cell for cell in wanted if key(cell, Cell) not in done]
    work = partial(run_cell, folder=options.data_folder)
    with Bar("missing labels", len(missing), Console(), "runs") as bar:
        for result in run_each(work, missing, options.jobs) if missing else ():
            append(path, [result])
            bar.advance(result.arm)
    return [result for result in read(path, Result) if key(result, Cell) in chosen]


def lines(results: Sequence[Result]) -> list[str]:
    """Return a line for each stream: means over seeds of the averaged weights' accuracy."""
    found = []
    missing = [result for result in results if result.arm != ALL]
    for stream in dict.fromkeys((r.data, r.noise, r.clean, r.labelled) for r in missing):
        data, noise, clean, labelled = stream
        there = [r for r in results if (r.data, r.noise, r.clean) == stream[:3]]
        here = [r for r in there if r.labelled == labelled and r.arm != ALL]
        arms = [[r for r in there if r.arm == ALL]]
        arms += [[r for r in here if r.arm == arm] for arm in ARMS]
        numbers = [four(mean(r.accuracy_ema for r in arm)) for arm in arms]
        cells = " | ".join([*numbers, right_guesses(here)])
        found.append(f"| {data}, {noise} | {clean:.1f} | {labelled:.1f} | {cells} |")
    return found


def right_guesses(results: Sequence[Result]) -> str:
    """Return the share of the guesses of all runs that are right; a dash where there are none."""
    guesses = sum(r.guessed for r in results)
    right = sum(r.right * r.guessed for r in results)
    return f"{100 * right / guesses:.0f}%" if guesses else "-"


def four(value: float) -> str:
    """Write a share with four places."""
    return f"{value:.4f}".removeprefix("0")
