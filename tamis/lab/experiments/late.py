"""Runs on labels that come late, and the table of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from statistics import mean

from rich.console import Console

from tamis.errors import UsageError
from tamis.lab.experiments.choices import make_folder
from tamis.lab.experiments.workers import run_each
from tamis.lab.late import ARMS, Cell, Result, cells, run_cell
from tamis.lab.pages.markdown import put_between, read_page, share
from tamis.lab.rows import append, key, read
from tamis.lab.scene import PLACES
from tamis.monitoring.progress import Bar

HEAD = (
    "| stream | clean ratio | slots late | on time | late | seeds | most rows waiting | limit |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def run(options: Namespace) -> int:
    """Run the missing cells, then print the results of the chosen ones."""
    if min(options.slots, options.seeds, options.jobs, *options.late) < 1:
        raise UsageError("--slots, --seeds, --jobs and --late are at least 1.")
    if not all(0 < clean <= 1 for clean in options.clean):
        raise UsageError("--clean are shares above 0, up to 1.")
    settings = Cell(data=options.data, noise=options.noise, slots=options.slots)
    wanted = cells(settings, options.clean, options.late, options.seeds)
    path, console = make_folder(options.out) / "results.csv", Console()
    done = {key(result, Cell) for result in read(path, Result)}
    missing = [cell for cell in wanted if key(cell, Cell) not in done]
    if missing:
        PLACES[options.data].load(options.data_folder)  # missing data is reported before any run
        with Bar("late labels", len(missing), console, "runs") as bar:
            work = partial(run_cell, folder=options.data_folder)
            for result in run_each(work, missing, options.jobs):
                append(path, [result])
                bar.advance(result.arm)
    streams = {(cell.data, cell.noise, cell.clean, cell.slots, cell.late) for cell in wanted}
    results = [
        result
        for result in read(path, Result)
        if (result.data, result.noise, result.clean, result.slots, result.late) in streams
    ]
    table = "\n".join((*HEAD, *lines(results)))
    console.print(table, markup=False, highlight=False, soft_wrap=True)
    if options.page:
        options.page.write_text(put_between(read_page(options.page, "late"), table, "late"))
    console.print(f"Results: {path}", markup=False, highlight=False)
    return 0


def lines(results: Sequence[Result]) -> list[str]:
    """Return a line for each stream: means over seeds of the averaged weights' accuracy."""
    found = []
    for stream in dict.fromkeys((r.data, r.noise, r.clean, r.late) for r in results):
        here = [r for r in results if (r.data, r.noise, r.clean, r.late) == stream]
        arms = [[r.accuracy_ema for r in here if r.arm == arm] for arm in ARMS]
        data, noise, clean, late = stream
        waiting, limit = max(r.most_waiting for r in here), max(r.limit for r in here)
        accuracies = " | ".join(share(mean(arm)) for arm in arms)
        found.append(
            f"| {data}, {noise} | {clean:.1f} | {late:,} | {accuracies} | {len(arms[0])}"
            f" | {waiting:,} | {limit:,} |"
        )
    return found
