"""Ten million rows through the trainer: how fast, and does memory stay where it is?

python -m benchmarks.stream --rows 10000000
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from torch import Generator

from tamis import OGRS, Samples, Sliding, Trainer
from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.models import mlp, start
from tamis.monitoring.progress import Bar
from tamis.streams import Symmetric
from tests.support.memory import resident

WIDTH, CLASSES, CHUNK, CAPACITY, MARK = 64, 10, 1_000, 50_000, 1_000_000


def stream(rows: int) -> Iterator[Samples]:
    """Make up rows around ten centres, chunk by chunk; two labels in five are wrong."""
    generator = Generator().manual_seed(0)
    centres = torch.randn(CLASSES, WIDTH, generator=generator)
    noise = Symmetric(CLASSES)
    for first in range(0, rows, CHUNK):
        truth = torch.randint(CLASSES, (CHUNK,), generator=generator)
        inputs = centres[truth] + torch.randn(CHUNK, WIDTH, generator=generator)
        inputs, labels, clean = noise.corrupt(inputs, truth, 0.4, generator)
        yield Samples.of(inputs, labels, first, clean=clean)


def measure(rows: int, console: Console) -> list[Row]:
    model = start(mlp, (WIDTH,), CLASSES, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, OGRS(), Sliding(CAPACITY))
    marks: dict[int, float] = {}
    spent, started = 0.0, perf_counter()
    with Bar("stream", rows // CHUNK, console) as bar:
        for slot in trainer.run(stream(rows)):
            spent += slot.seconds
            if slot.seen % MARK == 0 or slot.seen == rows:
                gc.collect()
                marks[slot.seen] = resident() / 1e6
            bar.advance()
    took = perf_counter() - started
    early, late = marks[min(marks)], marks[rows]
    return [
        ("rows", f"{rows:,} x {WIDTH} in slots of {CHUNK:,}, {CAPACITY:,} held, K = 32", ""),
        *(
            (f"resident memory after {seen:,} rows, MB", f"{size:.1f}", "")
            for seen, size in marks.items()
        ),
        (
            f"growth of memory from {min(marks):,} rows to the end, per cent",
            f"{100 * (late - early) / early:.2f}",
            "<= 1",
        ),
        ("rows a second in the trainer", f"{rows / spent:.0f}", ""),
        ("slots a second in the trainer", f"{rows / CHUNK / spent:.1f}", ""),
        ("rows a second, making them up included", f"{rows / took:.0f}", ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10 * MARK)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    rows = [("machine", machine(), ""), *measure(options.rows // CHUNK * CHUNK, console)]
    save_rows(options.out / "stream.csv", rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
