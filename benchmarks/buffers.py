"""Rows a second through every buffer, and whether memory stays where it is once one is full.

python -m benchmarks.buffers
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table

from tamis.buffers import BUFFERS
from tamis.data import Samples
from tamis.lab.pages.measurements import Line, save_table
from tamis.lab.pages.performance_page import BUFFERS as COLUMNS
from tests.support.memory import resident

ROWS, WIDTH, CHUNK, CAPACITY = 1_000_000, 64, 256, 50_000


def measure(kind: type) -> tuple[float, float, float]:
    """Rows a second, megabytes just after the buffer was full, and growth from there to the end."""
    generator = torch.Generator().manual_seed(0)
    chunk = torch.randn(CHUNK, WIDTH, generator=generator)
    labels = torch.randint(10, (CHUNK,), generator=generator)
    buffer, full, spent = kind(CAPACITY), 0, 0.0
    for start in range(0, ROWS, CHUNK):
        samples = Samples.of(chunk, labels, start)
        started = perf_counter()
        buffer.append(samples, generator)
        spent += perf_counter() - started
        if not full and len(buffer) == CAPACITY:
            gc.collect()
            full = resident()
    gc.collect()
    return ROWS / spent, full / 1e6, (resident() - full) / full


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, help="folder for buffers.csv (default: none is written)"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title=f"{ROWS:,} rows x {WIDTH} in chunks of {CHUNK}, capacity {CAPACITY:,}")
    for name in ("buffer", "rows a second", "resident MB when full", "growth to the end"):
        table.add_column(name, justify="right")
    lines: list[Line] = []
    for kind in BUFFERS:
        speed, size, growth = measure(kind)
        numbers = (f"{speed:.0f}", f"{size:.0f}", f"{100 * growth:.2f}")
        lines.append(dict(zip(COLUMNS, (kind.__name__, *numbers), strict=True)))
        table.add_row(kind.__name__, f"{speed:,.0f}", f"{size:.0f}", f"{100 * growth:+.2f}%")
    Console().print(table)
    if options.out:
        save_table(options.out / "buffers.csv", COLUMNS, lines)


if __name__ == "__main__":
    main()
