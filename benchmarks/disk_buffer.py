"""Rows on disk, far more than the memory allowed: slots, checkpoints, kills.

    python -m benchmarks.disk_buffer --page
    python -m benchmarks.disk_buffer --gigabytes 1 --memory 1.5   # in short

Memory is limited for the process that measures: RLIMIT_DATA counts all of its memory but for
files, which the system keeps in memory only as long as nobody else needs it. The same slot is timed
turn by turn on a buffer in memory that fits. Needs 2.2 times the space of the rows on the disk.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

import torch
from rich.console import Console

from benchmarks.timing import race, ratio
from tamis import Plausible, Samples, Sliding, Trainer
from tamis.buffers.mapped import MappedRows
from tamis.checkpoint import Checkpoints
from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.scale_page import DISK, FOLDER, PAGE, fill
from tamis.models import mlp, start
from tests.support.disk_kills import kill_while_writing
from tests.support.memory import anonymous

SHAPE, CLASSES, ARRIVING, POOL = (3, 32, 32), 10, 10, 1024
ROW = 4 * 3 * 32 * 32
IN_MEMORY = 40_000
"""Rows of the buffer in memory."""
CHUNK = 2048
ROUNDS = 100


@cache
def pictures() -> torch.Tensor:
    """Return the inputs that all rows have but for their first number."""
    return torch.randn(CHUNK, *SHAPE, generator=torch.Generator().manual_seed(0))


def made(first: int, count: int) -> Samples:
    """Return rows that differ in their first number."""
    ids = torch.arange(first, first + count)
    inputs = pictures()[:count].clone()
    inputs[:, 0, 0, 0] = ids % 4093 / 4093
    return Samples.of(inputs, ids % CLASSES, first)


class Side:
    """A trainer whose buffer is full, and the rows that come next."""

    def __init__(self, rows: int, disk: Path | None) -> None:
        self.rows, self.arrived = rows, 0
        model = start(mlp, SHAPE, CLASSES, 0)
        self.buffer = Sliding(rows, disk=disk)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        self.trainer = Trainer(model, optimizer, Plausible(), self.buffer, k=32, pool_size=POOL)

    def fill(self, rows: int) -> None:
        """Take rows in without training."""
        while rows:
            count = min(rows, CHUNK)
            self.buffer.append(made(self.arrived, count), self.trainer.generator)
            self.arrived, rows = self.arrived + count, rows - count

    def step(self) -> None:
        """Do a slot."""
        self.trainer.step(made(self.arrived, ARRIVING))
        self.arrived += ARRIVING

    def evict(self) -> None:
        """Flush the file to the disk, and drop its pages from memory."""
        mapped = cast(MappedRows, self.buffer._mapped)
        mapped._map.flush()
        mapped._map.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(mapped._handle, 0, 0, os.POSIX_FADV_DONTNEED)


def written() -> int:
    """Return the bytes that this process has written so far; a mapped file is none of them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def time_slots(memory: Side, disk: Side, console: Console) -> list[Row]:
    """Compare slots: as they come, and with nothing of the file in memory."""
    sides = {"memory": memory.step, "disk": disk.step}
    warm = race(sides, ROUNDS)
    cold = race(sides, ROUNDS, before=disk.evict)
    found = [
        ("a slot on disk over one in memory", str(ratio(warm["disk"], warm["memory"])), "<= 1.5"),
        (
            "the same, nothing of the rows in memory before each slot",
            str(ratio(cold["disk"], cold["memory"])),
            "<= 1.5",
        ),
        ("milliseconds of a slot in memory", f"{1000 * warm['memory'].median():.1f}", ""),
        ("milliseconds of a slot on disk", f"{1000 * warm['disk'].median():.1f}", ""),
        ("the same, nothing in memory before", f"{1000 * cold['disk'].median():.1f}", ""),
    ]
    console.print(*found, sep="\n")
    return found


def time_saves(disk: Side, checkpoints: Checkpoints, console: Console) -> list[Row]:
    """Compare checkpoints: the first, and those after 1% of the rows has changed."""
    seconds, sizes = [], []
    for change in (0, disk.rows // 100, disk.rows // 100, 0):
        disk.fill(change)
        if not change and seconds:  # scattered
            order = torch.randperm(disk.rows, generator=disk.trainer.generator)
            rows = order[: disk.rows // 100].sort().values
            for part in rows.split(CHUNK):
                disk.buffer.write(part, disk.trainer.held()[part])
        before, started = written(), perf_counter()
        checkpoints.save(disk.trainer)
        seconds.append(perf_counter() - started)
        sizes.append(written() - before)
        console.print(f"checkpoint: {seconds[-1]:.1f} s, {sizes[-1] / 1e9:.3f} GB")
    found: list[Row] = [
        ("seconds of the first checkpoint", f"{seconds[0]:.1f}", ""),
        ("gigabytes of the first checkpoint", f"{sizes[0] / 1e9:.2f}", ""),
    ]
    names = ("1% newer", "1% newer, once more", "1% at random places")
    for name, second, size in zip(names, seconds[1:], sizes[1:], strict=True):
        what = f"of a checkpoint after {name}, as a share of the first"
        found += [
            (f"bytes {what}", f"{size / sizes[0]:.4f}", "<= 0.05"),
            (f"seconds {what}", f"{second / seconds[0]:.4f}", "<= 0.05"),
        ]
    return found


def measure(folder: Path, gigabytes: float, memory: float, console: Console) -> list[Row]:
    """Measure slots and checkpoints with limited memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory * 1e9), int(memory * 1e9)))
    rows, started = int(gigabytes * 1e9 / ROW), perf_counter()
    disk, small = Side(rows, folder), Side(min(rows, IN_MEMORY), None)
    small.fill(small.rows)
    disk.fill(rows)
    console.print(f"{rows:,} rows written in {perf_counter() - started:.0f} s")
    found = [
        ("gigabytes of rows on disk", f"{rows * ROW / 1e9:.1f}", ""),
        ("gigabytes of memory allowed (RLIMIT_DATA)", f"{memory:.1f}", ""),
    ]
    checkpoints = Checkpoints(folder / "checkpoints")
    found += time_saves(disk, checkpoints, console)
    found += time_slots(small, disk, console)
    checkpoints.save(disk.trainer)
    held = disk.trainer.held()
    some = torch.randperm(rows, generator=disk.trainer.generator)[:CHUNK]
    before = held[some]
    del disk, held
    resumed, started = Side(rows, folder), perf_counter()
    checkpoints.load(resumed.trainer)
    found.append(("seconds to resume, every block checked", f"{perf_counter() - started:.1f}", ""))
    same = all(
        column.equal(before.columns()[name])
        for name, column in resumed.trainer.held()[some].columns().items()
    )
    found += [
        ("rows after resuming", "equal" if same else "differ", "equal"),
        ("gigabytes of memory in use, files left out", f"{anonymous() / 1e9:.2f}", f"<= {memory}"),
    ]
    return found


def main() -> None:
    """Measure, print, and write the table of the page where all is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--memory", type=float, default=2.0, help="gigabytes allowed")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--page", action="store_true", help="write the table of docs/scale.md")
    parser.add_argument("--folder", type=Path, help="where rows are kept meanwhile")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(soft_wrap=True)
    with TemporaryDirectory(dir=options.folder) as place:
        free = shutil.disk_usage(place).free / 1e9
        if free < 2.2 * options.gigabytes:
            parser.error(f"{2.2 * options.gigabytes:.0f} GB are needed, {free:.0f} GB are free.")
        # First, for a limit of memory is inherited.
        survived = kill_while_writing(Path(place, "kills"), options.kills, 10 * options.kills, 2000)
        console.print(survived)
        rows = measure(Path(place, "rows"), options.gigabytes, options.memory, console)
    end = "identical" if survived.identical else "different"
    rows += [
        ("kill -9, half of them within a save", str(survived.kills), f">= {options.kills}"),
        ("rows lost that were reported saved", str(survived.lost), "<= 0"),
        ("the killed run, and one in memory that nothing has stopped", end, "identical"),
        ("machine", machine(), ""),
    ]
    console.print(*rows, sep="\n")
    if options.page:
        save_rows(FOLDER / DISK, rows)
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
