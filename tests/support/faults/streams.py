"""Long streams, bursts of noise, and labels without information."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from pathlib import Path

import torch

from tamis import OGRS, Monitor, Plausible, Replay, Samples, Sliding, Trainer
from tamis.models import logistic, mlp, start
from tamis.monitoring.collapse import NO_INFORMATION
from tamis.streams import Burst, Constant, Noise, Redrawn, Schedule, Symmetric, digits
from tests.support.faults.row import Row
from tests.support.memory import resident

WIDTH, CLASSES, CHUNK, CAPACITY = 16, 4, 1_000, 20_000
ROOT = Path(__file__).parents[3]


def grow(rows: int) -> float:
    """Play rows through validator, buffer and trainer; return the bytes gained a million."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, WIDTH, generator=generator)
    model = start(logistic, (WIDTH,), CLASSES, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, OGRS(), Sliding(CAPACITY), warm_up=10, pool_size=512)
    monitor = Monitor(patience=20)
    early = max(rows // 10, 2 * CAPACITY)
    for first in range(0, rows, CHUNK):
        labels = torch.randint(CLASSES, (CHUNK,), generator=generator)
        inputs = centres[labels] + torch.randn(CHUNK, WIDTH, generator=generator)
        monitor.update(trainer.step(Samples.of(inputs, labels, first)))
        if first == early:
            gc.collect()
            before = resident()
    gc.collect()
    return (resident() - before) / (rows - early) * 1e6


def many_rows(rows: int) -> Row:
    """In a process of its own: others leave memory behind."""
    program = f"from tests.support.faults.streams import grow; print(grow({rows}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    growth = float(done.stdout) / 1e6
    return Row(
        f"{rows:,} rows",
        1,
        int(growth < 1),
        f"{growth:.2f} MB growth a million rows",
        "under 1 MB a million",
        growth < 1,
    )


def train(noise: Noise, schedule: Schedule, seed: int, slots: int) -> tuple[Trainer, Monitor]:
    data = digits()
    model = start(mlp, data.input_shape, 10, seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, Plausible(), Sliding(5_000), pool_size=512, seed=seed)
    monitor = Monitor()
    stream = Replay(
        data.inputs, data.labels, noise, schedule, slots=slots, rows_per_slot=10, seed=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slot in trainer.run(stream):
            monitor.update(slot)
    return trainer, monitor


def accuracy(trainer: Trainer) -> float:
    data = digits()
    return trainer.accuracy(data.test_inputs, data.test_labels).ema or 0.0


def noise_burst(seeds: int, slots: int = 800) -> Row:
    """Corrupt 80% of the labels for a fifth of the stream, and compare with a stream without."""
    lost = []
    for seed in range(seeds):
        with_burst, _ = train(Symmetric(10), Burst(1.0, 0.2, 0.4, 0.6), seed, slots)
        without, _ = train(Symmetric(10), Constant(1.0), seed, slots)
        lost.append(100 * (accuracy(without) - accuracy(with_burst)))
    mean = sum(lost) / len(lost)
    return Row(
        "noise burst 0 to 80% and back",
        seeds,
        sum(points <= 1 for points in lost),
        f"{mean:.1f} points below a stream without one, in the mean over {seeds} seeds",
        "within 1 point",
        mean <= 1,
    )


NOISES: dict[str, tuple[Noise, float]] = {
    "all wrong": (Symmetric(10), 0.0),
    "drawn blindly": (Redrawn(10), 0.1),
}


def no_information(seeds: int, slots: int = 450) -> Row:
    """Distinguish labels without information from those of which 8 in 10 are wrong."""
    warned, calm = 0, 0
    for seed in range(seeds):
        for noise, ratio in NOISES.values():
            warned += NO_INFORMATION in train(noise, Constant(ratio), seed, slots)[1].warnings
        calm += NO_INFORMATION not in train(Symmetric(10), Constant(0.2), seed, slots)[1].warnings
    return Row(
        "100% noise",
        3 * seeds,
        warned + calm,
        f"reports that labels carry no information in {warned} of {2 * seeds} runs, and in"
        f" {seeds - calm} of {seeds} with 80% noise",
        "all, and none",
        warned == 2 * seeds and calm == seeds,
    )
