"""Runs on classes that come up in mid-stream, and the table of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from statistics import mean

from rich.console import Console

from tamis.errors import UsageError
from tamis.lab.experiments.choices import make_folder
from tamis.lab.experiments.workers import run_each
from tamis.lab.new_classes import DATA, Cell, Result, run_cell
from tamis.lab.pages.markdown import put_between, read_page, share
from tamis.lab.rows import append, key, read
from tamis.monitoring.progress import Bar

HEAD = (
    "| stream | clean ratio | seeds | rows until named, most | slots until learned, grown | knew"
    " them | ratio | recall of the others, grown | knew them | lost, points |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def run(options: Namespace) -> int:
    """Run the missing cells, then print all results."""
    counts = (options.before, options.after, options.every, options.seeds, options.jobs)
    if min(counts) < 1 or options.every > options.after:
        raise UsageError("--before, --after, --every, --seeds and --jobs are at least 1.")
    if not all(0 < clean <= 1 for clean in options.clean):
        raise UsageError("--clean are shares above 0, up to 1.")
    wanted = [
        Cell(options.data, clean, options.before, options.after, options.every, seed)
        for clean in options.clean
        for seed in range(options.seeds)
    ]
    path, console = make_folder(options.out) / "results.csv", Console()
    done = {key(result, Cell) for result in read(path, Result)}
    missing = [cell for cell in wanted if key(cell, Cell) not in done]
    if missing:
        DATA[options.data](options.data_folder)  # missing data is reported before any run
        with Bar("new classes", len(missing), console, "runs") as bar:
            work = partial(run_cell, folder=options.data_folder)
            for result in run_each(work, missing, options.jobs):
                append(path, [result])
                bar.advance(result.data)
    table = "\n".join((*HEAD, *lines(read(path, Result))))
    console.print(table, markup=False, highlight=False, soft_wrap=True)
    if options.page:
        options.page.write_text(put_between(read_page(options.page, "classes"), table, "classes"))
    console.print(f"Results: {path}", markup=False, highlight=False)
    return 0


def lines(results: Sequence[Result]) -> list[str]:
    """Return a line for each stream: means over seeds, of slots over those that were enough."""
    found = []
    for stream in dict.fromkeys((r.data, r.clean, r.before, r.after) for r in results):
        here = [r for r in results if (r.data, r.clean, r.before, r.after) == stream]
        named = max(r.named for r in here)
        learned = [r for r in here if r.grown and r.knew]
        slots = ["-", "-", "-"]
        if learned:
            slots = [f"{mean(getattr(r, way) for r in learned):.0f}" for way in ("grown", "knew")]
            slots.append(f"{mean(r.grown / r.knew for r in learned):.2f}")
        old = [share(mean(getattr(r, f"old_{way}") for r in here)) for way in ("grown", "knew")]
        lost = f"{100 * mean(r.lost for r in here):.2f}"
        cells = (f"{stream[0]} | {stream[1]:.1f}", str(len(here)), str(named), *slots, *old)
        found.append(f"| {' | '.join(cells)} | {lost} |")
    return found
