"""Ten thousand classes and a hundred thousand rows: memory, checkpoints, and slots against naive.

python -m benchmarks.classes
"""

from __future__ import annotations

import argparse
import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from rich.console import Console
from torch import Generator

from benchmarks.timing import race, ratio
from tamis import Alarm, Naive, Plausible, Samples, Sliding, Trainer
from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.models import mlp, start
from tamis.monitoring import CollapseWarning
from tamis.monitoring.progress import Bar
from tamis.selectors import Selector
from tamis.sources import Validator
from tamis.streams import Symmetric
from tamis.training.run import TrainingRun
from tests.support.memory import bytes_of, peak, resident

WIDTH, ARRIVING, NOISE_RATE, SCORED = 64, 400, 0.3, 1_000
MB = 1e6


def stream(classes: int, rows: int, each: int, seed: int = 0) -> Iterator[Samples]:
    """Make up rows around a centre for each class; three labels in ten are wrong."""
    centres = torch.randn(classes, WIDTH, generator=Generator().manual_seed(0))
    generator, noise = Generator().manual_seed(seed), Symmetric(classes)
    for first in range(0, rows, each):
        truth = torch.randint(classes, (each,), generator=generator)
        inputs = centres[truth] + 0.5 * torch.randn(each, WIDTH, generator=generator)
        inputs, labels, clean = noise.corrupt(inputs, truth, NOISE_RATE, generator)
        yield Samples.of(inputs, labels, first, clean=clean)


def build(classes: int, rows: int, selector: Selector, tracker: Alarm | None) -> Trainer:
    """Build what `tamis train` builds by default."""
    model = start(mlp, (WIDTH,), classes, 0)
    return Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        selector,
        Sliding(rows),
        pool_size=1024,
        validator=Validator(classes),
        tracker=tracker,
    )


def named(samples: Samples) -> tuple[Samples, list[str]]:
    """Return rows with their numbers as text."""
    return samples, [str(number) for number in samples.ids.tolist()]


def measure_run(classes: int, rows: int, console: Console) -> list[Row]:
    """Run over all rows once, with checkpoints, log and suspects; measure memory and files."""
    gc.collect()
    before = resident()
    trainer = build(classes, rows, Plausible(), Alarm(classes))
    model = bytes_of(trainer.model.state_dict())
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        with (
            TrainingRun(folder, trainer) as run,
            Bar(f"{classes:,} classes", rows // ARRIVING, console) as bar,
        ):
            for _ in run.train(stream(classes, rows, ARRIVING)):
                bar.advance()
            run.save()
            newest = max(run.checkpoints.folder.iterdir(), key=lambda path: path.name)
            saved = sum(file.stat().st_size for file in newest.iterdir())
            training = peak() - before - model
            started = perf_counter()
            run.finish(lambda: [named(trainer.held()[slice(SCORED)])])
            seconds = perf_counter() - started
    buffer = bytes_of(trainer.buffer.state_dict())
    parts = {"tracker and alarm": trainer.tracker, "selector": trainer.selector}
    sizes = {name: bytes_of(part.state_dict()) for name, part in parts.items() if part}
    return [
        ("rows", f"{rows:,} of {WIDTH} numbers, {classes:,} classes", ""),
        ("model, MB", f"{model / MB:.1f}", ""),
        ("buffer, MB", f"{buffer / MB:.1f}", ""),
        *((f"state of {name}, MB", f"{size / MB:.1f}", "") for name, size in sizes.items()),
        ("memory beyond the model, training, MB", f"{training / MB:.0f}", "<= 1000"),
        (
            f"memory beyond the model, suspects among {SCORED:,} rows at the end included, MB",
            f"{(peak() - before - model) / MB:.0f}",
            "<= 1000",
        ),
        ("checkpoint, MB", f"{saved / MB:.1f}", ""),
        ("checkpoint over model and buffer", f"{saved / (model + buffer):.2f}", "<= 3"),
        ("seconds to find them", f"{seconds:.0f}", ""),
    ]


def measure_slots(classes: int, rows: int, rounds: int) -> list[Row]:
    """Time slots turn by turn, all trainers with a full buffer."""
    trainers = {
        "naive": build(classes, rows, Naive(), None),
        "naive, alarm": build(classes, rows, Naive(), Alarm(classes)),
        "Plausible, alarm": build(classes, rows, Plausible(), Alarm(classes)),
    }
    for trainer in trainers.values():
        for samples in stream(classes, rows, ARRIVING):
            trainer.buffer.append(samples, trainer.generator)

    def slots(trainer: Trainer) -> None:
        for samples in stream(classes, 50, 10, trainer.slots):
            trainer.step(samples)

    times = race({name: (lambda own=own: slots(own)) for name, own in trainers.items()}, rounds)
    plausible = times["Plausible, alarm"]
    return [
        *(
            (f"a slot of {name}, ms", f"{1e3 * seconds.median().item() / 5:.1f}", "")
            for name, seconds in times.items()
        ),
        (
            "a slot over naive's, both with the alarm",
            str(ratio(plausible, times["naive, alarm"])),
            "<= 3",
        ),
        (
            "a slot with the alarm over naive's without",
            str(ratio(plausible, times["naive"])),
            "<= 3",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    measured = measure_run(options.classes, options.rows, Console())
    measured += measure_slots(options.classes, options.rows, options.rounds)
    rows = [
        ("machine", machine(), ""),
        *((f"{options.classes:,} classes: {what}", *rest) for what, *rest in measured),
    ]
    save_rows(options.out / "classes.csv", rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
