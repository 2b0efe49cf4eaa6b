"""tamis bench."""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
import signal
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tamis.checkpoint import write_atomically
from tamis.commands import UsageError
from tamis.commands.progress import Bar
from tamis.commands.reproduce import make_folder
from tamis.experiments.board import (
    Cell,
    Result,
    as_row,
    cells,
    from_row,
    header,
    key,
    load,
    run_cell,
)
from tamis.experiments.methods import METHODS, NOISES, PLACES, VARIANTS

if TYPE_CHECKING:
    from tamis.report import board_page

HELP = "Run all methods on one board: accuracy beside what it cost and what had to be told."
EXAMPLES = """examples:
  tamis bench --data digits --seeds 1 --slots 500
  tamis bench --methods "OGRS, ITLM, naive" --clean 0.5,0.3
  tamis bench --page docs/board.md
  tamis bench --list

Results go to results.csv line by line; a run that was stopped goes on where it stopped. Cells that
fail go to failed.csv, and are tried again next time. The board shows what was asked for:
board.csv, board.html, board.png, and with --page a Markdown page, between the marks
<!-- board --> and <!-- /board -->."""
NEAREST = 3


@dataclass(frozen=True)
class Failure:
    """A cell that could not be run, and why, in one line."""

    cell: Cell
    error: str

    @property
    def text(self) -> str:
        """Say what failed."""
        cell = self.cell
        where = f"{cell.data}, {cell.noise} noise, clean ratio {cell.clean_ratio:g}"
        return f"Failed: {cell.method} on {where}, seed {cell.seed}: {self.error}"


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    parser.add_argument("--methods", help="names, comma separated (default: all)")
    parser.add_argument(
        "--data", default="digits,mnist", help=f"of {', '.join(PLACES)} (default %(default)s)"
    )
    parser.add_argument("--noise", default="symmetric,pair", help="kinds (default %(default)s)")
    parser.add_argument(
        "--clean",
        dest="clean_ratios",
        default="0.9,0.7,0.5,0.3",
        help="clean ratios (default %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of a cell (default 3)")
    parser.add_argument("--slots", type=int, help="slots of a run (default: the data set's own)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: all cores)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder to write to")
    parser.add_argument("--data-folder", type=Path, help="where MNIST lies (default: TAMIS_DATA)")
    parser.add_argument("--page", type=Path, help="Markdown page to write the board into")
    parser.add_argument(
        "--list", action="store_true", help="name the methods, and what each is told"
    )


def run(options: Namespace) -> int:
    """Run what is not there yet, then write the board and show it."""
    console = Console()
    if options.list:
        console.print(list_methods())
        return 0
    wanted = asked(options)
    try:
        from tamis.report import board_page
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'tamis[demo]'.") from None
    if options.page:
        try:
            board_page.put_between(board_page.read_page(options.page), "")
        except (OSError, ValueError) as error:
            raise UsageError(f"--page {options.page}: {error}.") from None
    path = make_folder(options.out) / "results.csv"
    done = {key(result) for result in read(path)}
    missing = [cell for cell in wanted if key(cell) not in done]
    for name in dict.fromkeys(cell.data for cell in missing):
        load(
            name, options.data_folder
        )  # what is not there is told, or fetched, before anything runs
    failures = run_missing(missing, path, options, console) if missing else 0
    place = {key(cell): number for number, cell in enumerate(wanted)}
    results = sorted(
        (result for result in read(path) if key(result) in place),
        key=lambda result: place[key(result)],
    )
    if results:
        board_page.write_board(results, options.out, options.page)
        for table in board_page.as_tables(board_page.summarise(results)):
            console.print(as_table(table))
            console.print(" ".join(board_page.findings(table)), markup=False, highlight=False)
        console.print(f"Board: {options.out / 'board.html'}", markup=False, highlight=False)
    if failures:
        text = f"{failures} of {len(wanted)} runs failed: {options.out / 'failed.csv'}"
        console.print(text, markup=False, highlight=False)
    return 1 if failures else 0


def list_methods() -> Table:
    """Name the methods, and what each must be told."""
    table = Table("method", "must be told", box=None, padding=(0, 2, 0, 0))
    for method in (*METHODS, *VARIANTS):
        table.add_row(Text(method.name), Text(method.told or "nothing"))
    return table


def asked(options: Namespace) -> list[Cell]:
    """List the cells that were asked for; a mistake costs one line."""
    for flag in ("seeds", "slots", "jobs"):
        if getattr(options, flag) is not None and getattr(options, flag) < 1:
            raise UsageError(f"--{flag} is at least 1, got {getattr(options, flag)}.")
    usual = [method.name for method in METHODS]
    known = [*usual, *(method.name for method in VARIANTS)]
    return cells(
        usual if options.methods is None else named(options.methods, known, "methods"),
        named(options.data, list(PLACES), "data"),
        named(options.noise, list(NOISES), "noise"),
        ratios(options.clean_ratios),
        options.seeds,
        options.slots,
    )


def named(text: str, known: Sequence[str], flag: str) -> list[str]:
    """Read names, comma separated, of which some have a comma themselves: the longest one counts.

    >>> named("rho, average, ogrs", ["OGRS", "RHO, average"], "methods")
    ['RHO, average', 'OGRS']
    """
    spelt = {name.lower(): name for name in known}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found: list[str] = []
    while parts:
        for count in range(len(parts), 0, -1):
            name = spelt.get(", ".join(parts[:count]).lower())
            if name:
                break
        else:
            raise UsageError(f"--{flag}: there is no {parts[0]!r}; {nearest(parts[0], known)}.")
        found.append(name)
        del parts[:count]
    if not found:
        raise UsageError(f"--{flag} names nothing; {nearest('', known)}.")
    return list(dict.fromkeys(found))


def nearest(name: str, known: Sequence[str]) -> str:
    """Say which names come near a wrong one; where there are few, say them all."""
    if len(known) <= 2 * NEAREST:
        return f"there are {', '.join(known)}"
    spelt = {name.lower(): name for name in known}
    begin = [word for word in spelt if name and word.startswith(name.lower())]
    near = dict.fromkeys([*begin, *get_close_matches(name.lower(), spelt, NEAREST)])
    if not near:
        return "tamis bench --list names all"
    return f"nearest: {'; '.join([spelt[word] for word in near][:NEAREST])}"


def ratios(text: str) -> list[float]:
    """Read clean ratios."""
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or not all(0 < ratio <= 1 for ratio in found):
        raise UsageError(f"--clean takes shares above 0 and at most 1, as 0.9,0.5, got {text!r}.")
    return list(dict.fromkeys(found))


def run_missing(missing: Sequence[Cell], path: Path, options: Namespace, console: Console) -> int:
    """Run cells, and take each down as it ends; return how many failed."""
    failed, failures = path.with_name("failed.csv"), 0
    forget(failed, missing)
    with Bar("bench", len(missing), console, "runs") as bar:
        for outcome in run_all(missing, options.data_folder, min(options.jobs, len(missing))):
            if isinstance(outcome, Failure):
                failures += 1
                append(failed, [*header()[:6], "error"], [*key(outcome.cell), outcome.error])
                console.print(outcome.text, markup=False, highlight=False)
                bar.advance(outcome.cell.method)
            else:
                append(path, header(), as_row(outcome))
                bar.advance(outcome.method)
    return failures


def run_all(missing: Sequence[Cell], folder: Path | None, jobs: int) -> Iterator[Result | Failure]:
    """Run cells in so many processes, or in this one if one is enough; they end in any order."""
    if jobs == 1:
        yield from (attempt(cell, folder) for cell in missing)
        return
    todo, idle, busy = deque(missing), list[Worker](), dict[Any, Worker]()
    try:
        while todo or busy:
            while todo and len(busy) < jobs:
                worker = idle.pop() if idle else Worker(folder)
                worker.begin(todo.popleft())
                busy[worker.pipe] = worker
            for pipe in wait(list(busy)):
                worker = busy.pop(pipe)
                outcome = worker.end()
                if worker.process.is_alive():
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*idle, *busy.values()):
            worker.process.terminate()


class Worker:
    """A process that runs one cell after another; where it dies, that cell alone is lost."""

    def __init__(self, folder: Path | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, folder), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def begin(self, cell: Cell) -> None:
        """Hand a cell over."""
        self.cell = cell
        with suppress(OSError):  # it has died: `end` says so
            self.pipe.send(cell)

    def end(self) -> Result | Failure:
        """Take what came of it."""
        try:
            outcome: Result | Failure = self.pipe.recv()
            return outcome
        except (EOFError, OSError):
            self.process.join()
            return Failure(self.cell, f"its process ended with code {self.process.exitcode}")


def serve(pipe: Connection, folder: Path | None) -> None:
    """Run the cells that come through a pipe, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    with suppress(EOFError, OSError):
        while True:
            pipe.send(attempt(pipe.recv(), folder))


def attempt(cell: Cell, folder: Path | None) -> Result | Failure:
    """Run a cell; an error in it ends nothing else."""
    try:
        return run_cell(cell, folder)
    except Exception as error:
        return Failure(cell, " ".join(f"{type(error).__name__}: {error}".split()))


def read(path: Path) -> list[Result]:
    """Read the results that are there; a line that a crash has cut short is dropped for good."""
    if is_empty(path):
        return []
    text = path.read_text(encoding="utf-8")
    head, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    if head != header():
        raise UsageError(f"{path} has other columns than this version writes: name another --out.")
    whole = text.endswith("\n")
    results = []
    for row in rows if whole else rows[:-1]:
        try:
            results.append(from_row(row))
        except ValueError:
            whole = False
    if not whole:
        rewrite(path, [header(), *map(as_row, results)])
    return results


def forget(path: Path, again: Iterable[Cell]) -> None:
    """Take from the file of failures those that are tried again."""
    if path.exists():
        tried = {key(cell) for cell in again}
        with path.open(newline="", encoding="utf-8") as file:
            rewrite(path, [row for row in csv.reader(file) if tuple(row[:6]) not in tried])


def rewrite(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows in place of what is there."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_atomically(path, out.getvalue().encode())


def append(path: Path, titles: Sequence[str], row: Sequence[str]) -> None:
    """Add one line, under titles if it is the first."""
    rows = [titles, row] if is_empty(path) else [row]
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def is_empty(path: Path) -> bool:
    """Say whether a file is not there, or has nothing in it."""
    return not path.exists() or not path.stat().st_size


def as_table(board: board_page.Table) -> Table:
    """Show the better accuracy at each clean ratio, and beside it what it cost."""
    table = Table(title=board.title, box=None, padding=(0, 1))
    table.add_column("method")
    for ratio in board.clean_ratios:
        table.add_column(f"{ratio:g}", justify="right")
    for title in ("forward", "ms", "told", "lost"):
        table.add_column(title, justify="left" if title == "told" else "right")
    for row in board.rows:
        forward, _, milliseconds, *_ = row.bill
        table.add_row(
            Text(row.method),
            *(
                Text(f"{cell.better.mean:.3f}" if cell else "", "bold" if bold else "")
                for cell, bold in zip(row.cells, row.bold, strict=True)
            ),
            *(f"{forward:.1f}", f"{milliseconds:.1f}"),
            Text(row.told),
            f"{row.lost}/{row.runs}" if row.lost else "",
        )
    return table
