"""Runs of the paper's experiments on real data: table, dynamic stream, page."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table

from tamis.errors import UsageError
from tamis.lab import board, dynamic, table
from tamis.lab.experiments.choices import make_folder, named, ratios
from tamis.lab.experiments.workers import Deadline, Failure, run_all
from tamis.lab.rows import append, key, read, replace_all
from tamis.lab.table import DATA, Line, Run, Settings
from tamis.monitoring.progress import Bar

SPARE = 1.15
"""Times longer than the last one like it that a run may take: others share the machine."""

LINES = 20
"""Lines of a curve, at the least."""


def run_table(options: Namespace) -> int:
    """Run the cells of the table that are missing."""
    settings = settings_of(options)
    if options.slots:
        every = min(settings.every, max(1, options.slots // LINES))
        settings = replace(settings, slots=options.slots, every=every)
    known = list(table.methods(settings))
    given = options.clean_ratios
    wanted = table.runs(
        settings,
        chosen(options.data, list(DATA), "data") or ["mnist", "cifar10"],
        ratios(",".join(given), "clean-ratios") if given else table.CLEAN_RATIOS,
        chosen(options.methods, known, "methods") or known,
        range(options.seeds or (1 if settings.is_quick else 5)),
    )
    return run_missing(wanted, table.run_table, settings, settings.slots, options)


def run_dynamic(options: Namespace) -> int:
    """Run the dynamic streams that are missing."""
    settings = settings_of(options)
    if options.slots:
        slots = max(1, options.slots // len(dynamic.PRINTED))
        every = min(settings.part_every, slots)
        settings = replace(settings, part_slots=slots, part_every=every)
    known = list(table.methods(settings))
    wanted = dynamic.runs(
        settings,
        chosen(options.data, list(DATA), "data") or ["cifar10"],
        chosen(options.readings, list(dynamic.READINGS), "readings") or list(dynamic.READINGS),
        chosen(options.methods, known, "methods") or dynamic.ROWS,
        range(options.seeds or (1 if settings.is_quick else 2)),
    )
    slots = dynamic.slots_of(settings)
    return run_missing(wanted, dynamic.run_dynamic, settings, slots, options)


def settings_of(options: Namespace) -> Settings:
    """Return the full settings, or the quick ones."""
    for flag in ("seeds", "slots", "processes"):
        if getattr(options, flag) is not None and getattr(options, flag) < 1:
            raise UsageError(f"--{flag} is at least 1, got {getattr(options, flag)}.")
    return Settings.quick() if options.quick else Settings()


def chosen(given: Sequence[str] | None, known: Sequence[str], flag: str) -> list[str]:
    """Read names; none, where none are given."""
    return named(",".join(given), known, flag) if given else []


def run_missing(
    wanted: Sequence[Run],
    work: Callable[..., list[Line]],
    settings: Settings,
    slots: int,
    options: Namespace,
) -> int:
    """Run the missing runs, a block of lines each; then print the chosen ones."""
    console, deadline = Console(), Deadline.after(options.limit)
    if not options.no_page:
        check_page(options.page)
    default = f"runs/{'quick' if settings.is_quick else 'paper'}"
    path = make_folder(options.out or Path(default)) / "curves.csv"
    if settings.is_quick:
        console.print("This is the quick version: fewer slots, and no ResNet. Not the paper's.")
    there = complete_runs(path, wanted, slots)
    missing = [run for run in wanted if key(run, Run) not in there]
    for name in dict.fromkeys(run.data for run in missing):
        table.load(name, options.data_folder)  # missing data is reported before any run
    table.load.cache_clear()
    failures = 0
    if missing:
        job = partial(work, settings=settings, folder=options.data_folder)
        takes = partial(seconds_like, list(there.values()))
        jobs = min(options.processes, len(missing))
        with Bar(options.what, len(missing), console, "runs") as bar:
            for outcome in run_all(job, missing, jobs, deadline, takes):
                if isinstance(outcome, Failure):
                    failures += 1
                    console.print(f"Failed: {outcome.cell}: {outcome.error}", markup=False)
                else:
                    append(path, outcome)
                    there[key(outcome[0], Run)] = outcome
                    bar.advance(outcome[0].method)
    console.print(as_table([there[key(run, Run)] for run in wanted if key(run, Run) in there]))
    left = sum(key(run, Run) not in there for run in wanted)
    console.print(f"Curves: {path}", markup=False, highlight=False)
    if there and not options.no_page:
        write_page(path, options.page, settings, console)
    if left:
        console.print(f"{left} of {len(wanted)} runs are left: the same command goes on.")
    return 1 if failures else 0


def run_page(options: Namespace) -> int:
    """Write tables and figures again from what was kept, and train nothing.

    Board and summary are rebuilt as well, where the runs of a board lie beside the paper's.
    """
    folder, console = options.out or Path("results/paper"), Console()
    check_page(options.page)
    write_page(folder / "curves.csv", options.page, settings_of(options), console)
    runs = folder.parent / "board" / "results.csv"
    if options.page and runs.exists():
        from tamis.lab.pages.board_page import rebuild_board
        from tamis.lab.pages.board_tables import in_order
        from tamis.lab.pages.results_summary import write_summary

        audits = folder.parent / "audit"
        write_summary(read(folder / "curves.csv", Line), audits, folder, options.page)
        rebuild_board(in_order(read(runs, board.Result)), runs.parent, options.page)
    return 0


def check_page(page: Path | None) -> None:
    """Check that a page can be written, before hours of work and not after."""
    try:
        from tamis.lab.pages.markdown import put_between, read_page
        from tamis.lab.pages.paper_page import PART

        if page:
            put_between(read_page(page, PART), "", PART)
    except ImportError as error:
        raise UsageError(
            f"{error.name} is missing: pip install 'tamis[demo]', or --no-page."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--page {page}: {error}.") from None


def write_page(path: Path, page: Path | None, settings: Settings, console: Console) -> None:
    """Write tables and figures of all curves in a file."""
    from tamis.lab.pages.paper_page import write_paper

    written = write_paper(read(path, Line), path.parent, page, settings)
    console.print(f"Page: {written}", markup=False, highlight=False)


def complete_runs(
    path: Path, wanted: Sequence[Run], slots: int
) -> dict[tuple[str, ...], list[Line]]:
    """Read the runs that ended; what was cut short is dropped from the file for good."""
    lines = read(path, Line)
    curves = table.by_run(lines)
    names = {key(run, Run) for run in wanted}
    short = {name for name in names & set(curves) if not table.is_complete(curves[name], slots)}
    if any(curves[name][-1].slot > slots for name in names & set(curves)):
        raise UsageError(f"{path} has longer runs than these {slots} slots: name another --out.")
    if short:
        left = [line for line in lines if key(line, Run) not in short]
        replace_all(path, left, Line)
    return {name: curve for name, curve in curves.items() if name not in short}


def seconds_like(done: Sequence[Sequence[Line]], run: Run) -> float:
    """Return how long a run may take, by finished ones of its kind; 0 if there are none."""
    took = [
        mean(line.milliseconds for line in curve) * curve[-1].slot / 1000
        for curve in done
        if (curve[0].experiment, curve[0].data, curve[0].method)
        == (run.experiment, run.data, run.method)
    ]
    return SPARE * max(took, default=0.0)


def as_table(curves: Sequence[Sequence[Line]]) -> Table:
    """Return a table of where runs ended, means over seeds."""
    table = Table(title="accuracy at the end, means over seeds", box=None, padding=(0, 1))
    for title in ("data", "clean", "reading", "method"):
        table.add_column(title)
    for title in ("seeds", "raw", "averaged", "purity", "cover", "ms"):
        table.add_column(title, justify="right")
    groups: dict[tuple[str, ...], list[Sequence[Line]]] = {}
    for curve in curves:
        last = curve[-1]
        of = (last.data, f"{last.clean_ratio:.4g}", last.reading, last.method)
        groups.setdefault(of, []).append(curve)
    for names, mine in groups.items():
        ends = [curve[-1] for curve in mine]
        table.add_row(
            *names, str(len(mine)), f"{mean(end.accuracy for end in ends):.3f}",
            f"{mean(end.accuracy_ema for end in ends):.3f}",
            f"{mean(end.purity for end in ends):.3f}", f"{mean(end.coverage for end in ends):.3f}",
            f"{mean(line.milliseconds for curve in mine for line in curve):.1f}",
        )  # fmt: skip
    return table
