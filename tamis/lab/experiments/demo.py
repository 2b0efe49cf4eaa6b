"""The demo: six methods, two processes, a table, and a page about them."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from time import perf_counter, sleep

import torch
from rich.console import Console
from rich.table import Table

from tamis.data import Slot
from tamis.errors import needs_extra
from tamis.lab.demo import LEAD, Demo, Result, Settings, log_path, prepare, run_method
from tamis.monitoring import CollapseWarning
from tamis.monitoring.progress import Bar

POLL = 0.2
"""Seconds between two looks at how far the other process is."""
_done: Synchronized[int] | None = None
"""Slots that the other process has done, in that process."""


def run(options: Namespace) -> int:
    """Run the methods, print a table, write the folder."""
    started = perf_counter()
    console = Console()
    demo = prepare(Settings(seed=options.seed, slots_per_row=options.slots_per_row))
    results = run_all(demo, options.out, console)
    with needs_extra("demo"):
        from tamis.lab.pages.demo_page import found_text, write_demo
    page = write_demo(demo, results, options.out)
    console.print(as_table(demo, results))
    for result in results:
        for text in result.warnings:
            console.print(f"Warning: {result.name}: {text}.")
    console.print(found_text(demo, results))
    console.print(f"Took {perf_counter() - started:.0f} s. Open {page}", soft_wrap=True)
    console.print("With data of your own: tamis train table.csv --label COLUMN")
    return 0


def run_all(demo: Demo, folder: Path, console: Console) -> list[Result]:
    """Run the lead here and the others in a second process, if there is a core for it."""
    others = [name for name in demo.methods if name != LEAD]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (cores or 1) < 2:
        return [train_here(demo, name, folder, console) for name in demo.methods]
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    pool = ProcessPoolExecutor(1, context, initializer=begin, initargs=(done,))
    started = perf_counter()
    try:
        futures = [pool.submit(train_there, demo, name, folder) for name in others]
        lead = train_here(demo, LEAD, folder, console)
        title, slots = f"{len(others)} other methods", demo.slots * len(others)
        with Bar(title, slots, console, started=started) as bar:
            for future in futures:
                wait_for(future, done, bar)
        return [lead, *(future.result() for future in futures)]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def wait_for(future: Future[Result], done: Synchronized[int], bar: Bar) -> None:
    """Advance a bar by what the other process has done, until a method has ended."""
    while True:
        ended = future.done()
        if more := done.value - bar.done:
            bar.advance(count=more)
        if ended:
            return
        sleep(POLL)


def begin(done: Synchronized[int]) -> None:
    """Prepare the other process."""
    global _done
    _done = done


def train_there(demo: Demo, name: str, folder: Path) -> Result:
    """Run a method in the other process, and count its slots."""

    def count(_: object) -> None:
        if _done is not None:
            _done.value += 1

    return train(demo, name, folder, count)


def train_here(demo: Demo, name: str, folder: Path, console: Console) -> Result:
    """Run a method in this process, under a bar."""
    with Bar(name, demo.slots, console) as bar:
        return train(demo, name, folder, lambda _: bar.advance())


def train(demo: Demo, name: str, folder: Path, progress: Callable[[Slot], None]) -> Result:
    """Run a method on one thread: two give other bits, and are no faster here."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # printed below the table
        return run_method(demo, name, log_path(folder, name), progress)


def as_table(demo: Demo, results: list[Result]) -> Table:
    """Return a table of the methods."""
    ratios = ", ".join(map(str, demo.settings.clean_ratios))
    table = Table(title=f"digits, clean ratio {ratios}, {demo.slots} slots")
    table.add_column("method")
    for name in ("accuracy", "averaged", "purity", "coverage", "ms per slot"):
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
