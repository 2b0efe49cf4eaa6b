"""One board for all methods: accuracy beside what it cost, and what it had to be told."""

from __future__ import annotations

import math
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from tamis.data import Slot
from tamis.experiments.methods import METHODS, PLACES, VARIANTS, Method, Runner, Scene
from tamis.monitor import CollapseWarning, Monitor
from tamis.streams import DataSet

PATIENCE = 200
"""Slots in a row without one pick of a class, after which the class counts as lost."""


@dataclass(frozen=True)
class Cell:
    """One run of the board."""

    method: str
    data: str
    noise: str
    clean_ratio: float
    slots: int
    seed: int


@dataclass(frozen=True)
class Result:
    """What a run came to, and its bill.

    `forward` and `backward` are rows passed through models for every row trained on. `models` are
    those beyond the one trained, `state` the bytes kept beyond model, optimiser and buffer.
    `lost` counts classes that vanished from the picks for a while. `machine` is what it ran on.
    """

    method: str
    data: str
    noise: str
    clean_ratio: float
    slots: int
    seed: int
    accuracy: float
    accuracy_ema: float
    purity: float
    coverage: float
    milliseconds: float
    forward: float
    backward: float
    models: int
    state: int
    lost: int
    machine: str


def cells(
    methods: Sequence[str],
    data: Sequence[str],
    noises: Sequence[str],
    clean_ratios: Sequence[float],
    seeds: int,
    slots: int | None = None,
) -> list[Cell]:
    """List the runs: seeds outermost, so that a board fills evenly."""
    return [
        Cell(method, place, noise, ratio, slots or PLACES[place].slots, seed)
        for seed in range(seeds)
        for place in data
        for noise in noises
        for ratio in clean_ratios
        for method in methods
    ]


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Train, and say what came of it."""
    torch.set_num_threads(1)
    method = {method.name: method for method in (*METHODS, *VARIANTS)}[cell.method]
    data = load(cell.data, folder)
    scene = Scene(PLACES[cell.data], data, cell.noise, cell.clean_ratio, cell.slots, cell.seed)
    runner = method.build(scene)
    monitor, trained = Monitor(every=cell.slots + 1, patience=PATIENCE), 0
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the board says so itself
        for slot in slots_of(runner, scene, method, cell.slots):
            monitor.record(slot)
            trained += len(slot.ids)
    took = perf_counter() - started
    passes, trained = scene.passes, max(1, trained)
    forward, backward = passes.forward / trained, passes.backward / trained
    accuracy = runner.accuracy(data.test_inputs, data.test_labels)
    return Result(
        *(cell.method, cell.data, cell.noise, cell.clean_ratio, cell.slots, cell.seed),
        accuracy.raw,
        math.nan if accuracy.ema is None else accuracy.ema,
        math.nan if monitor.purity is None else monitor.purity,
        slot.coverage or 0.0,
        1000 * took / cell.slots,
        forward,
        backward,
        len(scene.models) - 1,
        state_bytes(runner, scene),
        sum("vanished" in text for text in monitor.warnings),
        machine(scene.place.device),
    )


def machine(device: str) -> str:
    """Say what a run was made on."""
    what = f"{os.cpu_count()} cores"
    if device == "cuda":
        what = torch.cuda.get_device_name()
    return f"{what}, Python {platform.python_version()}, torch {torch.__version__}"


def slots_of(runner: Runner, scene: Scene, method: Method, slots: int) -> Iterator[Slot]:
    """Let the rows arrive as the method wants them, and train."""
    items = scene.stream(method.chunks)
    for _ in range(slots):
        yield runner.step(next(items, None))


def state_bytes(runner: Runner, scene: Scene) -> int:
    """Bytes kept beyond one model, its optimiser and the buffer."""
    kept = [weight for model in scene.models[1:] for weight in model.state_dict().values()]
    for owner in owners(runner):
        if hasattr(owner, "state"):
            kept += owner.state().values()
        elif isinstance(owner, torch.nn.Module):
            kept += owner.state_dict().values()
    return sum(part.numel() * part.element_size() for part in kept if isinstance(part, Tensor))


def owners(runner: Runner) -> Iterator[object]:
    """Find what may remember: the selector, the criterion, and the confusion that it follows."""
    trainer = getattr(runner, "trainer", runner)
    criterion = getattr(getattr(trainer, "now", None), "criterion", None)
    yield from (getattr(trainer, "selector", None), criterion)
    yield getattr(criterion, "confusion", None)


def load(name: str, folder: Path | None) -> DataSet:
    """Load the rows of a place."""
    return PLACES[name].load(folder)


def header() -> list[str]:
    """Name the columns of the file of results."""
    return [field.name for field in fields(Result)]


def as_row(result: Result) -> list[str]:
    """Write a result as a line of that file."""
    return [f"{x:.4f}" if isinstance(x, float) else str(x) for x in asdict(result).values()]


def from_row(row: Sequence[str]) -> Result:
    """Read it back."""
    kinds = {"str": str, "int": int, "float": float}
    named = zip(fields(Result), row, strict=True)
    return Result(*(kinds[str(field.type)](text) for field, text in named))


def key(cell: Cell | Result) -> tuple[str, ...]:
    """Tell cells apart."""
    return (
        cell.method, cell.data, cell.noise, f"{cell.clean_ratio:.4f}", str(cell.slots),
        str(cell.seed),
    )  # fmt: skip
