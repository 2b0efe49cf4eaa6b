"""One board for all methods: accuracy beside its cost and its side information."""

from __future__ import annotations

import math
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from tamis.checkpoint import get_state
from tamis.data import Slot
from tamis.lab.builders import Runner
from tamis.lab.methods import METHODS, VARIANTS, Method
from tamis.lab.scene import PLACES, Scene
from tamis.monitoring import CollapseWarning, Monitor
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
class Result(Cell):
    """What a run came to, and its bill.

    `forward` and `backward` are rows passed through models for every row trained on. `models` are
    those beyond the one trained, `state_dict` the bytes kept beyond model, optimiser and buffer.
    `lost` counts classes that vanished from the picks for a while. `clean_ratio_estimated` is what
    the selector takes the clean ratio to be, where it has an opinion. `machine` is what it ran on.
    """

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
    clean_ratio_estimated: float = math.nan
    machine: str = ""


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
    """Train on a stream, and return its results."""
    torch.set_num_threads(1)
    method = {method.name: method for method in (*METHODS, *VARIANTS)}[cell.method]
    data = load(cell.data, folder)
    scene = Scene(PLACES[cell.data], data, cell.noise, cell.clean_ratio, cell.slots, cell.seed)
    runner = method.build(scene)
    monitor, trained = Monitor(every=cell.slots + 1, patience=PATIENCE), 0
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the board counts them itself
        for slot in slots_of(runner, scene, method, cell.slots):
            monitor.update(slot)
            trained += len(slot.ids)
    took = perf_counter() - started
    passes, trained = scene.passes, max(1, trained)
    forward, backward = passes.forward / trained, passes.backward / trained
    if scene.place.device == "cuda":  # graphs are played back uncounted
        forward = backward = math.nan
    accuracy = runner.accuracy(data.test_inputs, data.test_labels)
    return Result(
        **asdict(cell),
        accuracy=accuracy.raw,
        accuracy_ema=math.nan if accuracy.ema is None else accuracy.ema,
        purity=math.nan if monitor.purity is None else monitor.purity,
        coverage=slot.coverage or 0.0,
        milliseconds=1000 * took / cell.slots,
        forward=forward,
        backward=backward,
        models=len(scene.models) - 1,
        state=state_bytes(runner, scene),
        lost=sum("vanished" in text for text in monitor.warnings),
        clean_ratio_estimated=estimated_by(runner),
        machine=machine(scene.place.device),
    )


def machine(device: str) -> str:
    """Return what a run was made on."""
    what = f"{os.cpu_count()} cores"
    if device == "cuda":
        what = torch.cuda.get_device_name()
    return f"{what}, Python {platform.python_version()}, torch {torch.__version__}"


def slots_of(runner: Runner, scene: Scene, method: Method, slots: int) -> Iterator[Slot]:
    """Train on rows that arrive as the method wants them."""
    items = scene.stream(method.chunks)
    for _ in range(slots):
        yield runner.step(next(items, None))


def estimated_by(runner: Runner) -> float:
    """Return the selector's estimate of the clean ratio; NaN where it has none."""
    selector = getattr(getattr(runner, "trainer", runner), "selector", None)
    ask = getattr(selector, "clean_ratio", None)
    ratio = ask() if ask else None
    return math.nan if ratio is None else float(ratio)


def state_bytes(runner: Runner, scene: Scene) -> int:
    """Bytes kept beyond one model, its optimiser and the buffer."""
    kept = [weight for model in scene.models[1:] for weight in model.state_dict().values()]
    for owner in owners(runner):
        if state := get_state(owner):
            kept += state.values()
    return sum(part.numel() * part.element_size() for part in kept if isinstance(part, Tensor))


def owners(runner: Runner) -> Iterator[object]:
    """Find what may remember: the selector, and the criterion, which gives its confusion too."""
    trainer = getattr(runner, "trainer", runner)
    criterion = getattr(getattr(trainer, "now", None), "criterion", None)
    yield from (getattr(trainer, "selector", None), criterion)


def load(name: str, folder: Path | None) -> DataSet:
    """Load the rows of a place."""
    return PLACES[name].load(folder)
