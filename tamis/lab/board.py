"""One board for all methods: accuracy beside its cost and its side information."""

from __future__ import annotations

import math
import os
import platform
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from tamis.checkpoint import get_state
from tamis.data import Samples, Slot
from tamis.lab.builders import Runner
from tamis.lab.methods import METHODS, VARIANTS, Method
from tamis.lab.scene import PLACES, Scene
from tamis.lab.suites import Spot, spots
from tamis.monitoring import CollapseWarning, Monitor
from tamis.review import LabelScorer
from tamis.streams import DataSet

PATIENCE = 200
"""Slots in a row without one pick of a class, after which the class counts as lost."""
EVERY = 10
"""Slots from one look at a selector's band to the next."""


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
    `clean_ratio_low` and `clean_ratio_high` are the ends of the selector's band, `clean_ratio_true`
    is the share of right labels among the rows held at the end. `inside` is the share of slots in
    which the band holds the truth. `separation` is how often a wrong label has a higher score than
    a right one, among the rows held at the end. `rare_recall` is the mean recall of the rarest
    third of the classes, where they have a long tail.
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
    clean_ratio_low: float = math.nan
    clean_ratio_high: float = math.nan
    clean_ratio_true: float = math.nan
    inside: float = math.nan
    rare_recall: float = math.nan
    separation: float = math.nan


@dataclass
class BandCheck:
    """Counts how often a selector's band around the clean ratio holds the truth."""

    looks: int = 0
    held: int = 0

    def update(self, runner: Runner) -> None:
        """Look once; a selector without a band counts for nothing."""
        low, high = band_of(runner)
        if not math.isnan(low):
            self.looks += 1
            self.held += low <= true_ratio(runner) <= high

    @property
    def share(self) -> float:
        """Share of the looks at which the truth was inside."""
        return self.held / self.looks if self.looks else math.nan


def cells(
    methods: Sequence[str],
    data: Sequence[str],
    noises: Sequence[str],
    clean_ratios: Sequence[float],
    seeds: int,
    slots: int | None = None,
) -> list[Cell]:
    """List the runs of every combination."""
    return cells_at(spots(data, noises, clean_ratios), methods, seeds, slots)


def cells_at(
    where: Iterable[Spot], methods: Sequence[str], seeds: int, slots: int | None = None
) -> list[Cell]:
    """List the runs: seeds outermost, so that a board fills evenly."""
    return [
        Cell(method, *spot, slots or PLACES[spot.data].slots, seed)
        for seed in range(seeds)
        for spot in where
        for method in methods
    ]


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Train on a stream, and return its results."""
    torch.set_num_threads(1)
    method = {method.name: method for method in (*METHODS, *VARIANTS)}[cell.method]
    data = load(cell.data, folder)
    scene = Scene(PLACES[cell.data], data, cell.noise, cell.clean_ratio, cell.slots, cell.seed)
    runner = method.build(scene)
    monitor, band, trained = Monitor(every=cell.slots + 1, patience=PATIENCE), BandCheck(), 0
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the board counts them itself
        for slot in slots_of(runner, scene, method, cell.slots):
            monitor.update(slot)
            trained += len(slot.ids)
            if slot.number % EVERY == 0:
                band.update(runner)
    took = perf_counter() - started
    passes, trained = scene.passes, max(1, trained)
    forward, backward = passes.forward / trained, passes.backward / trained
    if scene.place.device == "cuda":  # graphs are played back uncounted
        forward = backward = math.nan
    low, high = band_of(runner)
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
        clean_ratio_low=low,
        clean_ratio_high=high,
        clean_ratio_true=true_ratio(runner),
        inside=band.share,
        rare_recall=rare_recall(runner, scene),
        separation=separation(runner),
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
    ask = getattr(selector_of(runner), "clean_ratio", None)
    ratio = ask() if ask else None
    return math.nan if ratio is None else float(ratio)


def band_of(runner: Runner) -> tuple[float, float]:
    """Return the selector's band around the clean ratio; NaN where it has none."""
    ask = getattr(selector_of(runner), "clean_ratio_band", None)
    band = ask() if ask else None
    return (math.nan, math.nan) if band is None else (float(band[0]), float(band[1]))


def selector_of(runner: Runner) -> object:
    """Return the selector at work, if there is one."""
    return getattr(getattr(runner, "trainer", runner), "selector", None)


def held_by(runner: Runner) -> Samples:
    """Return the rows held."""
    held: Samples = getattr(runner, "trainer", runner).held()  # type: ignore[union-attr]
    return held


def true_ratio(runner: Runner) -> float:
    """Return the share of right labels among the rows held."""
    held = held_by(runner)
    return math.nan if held.clean is None else held.clean.float().mean().item()


def separation(runner: Runner) -> float:
    """Return the area under the ROC curve of the scores of held labels; NaN without wrong ones."""
    held, view = held_by(runner), getattr(getattr(runner, "trainer", runner), "averaged", None)
    if view is None or held.clean is None or held.clean.all() or not held.clean.any():
        return math.nan
    scores, _ = LabelScorer(view, held).scores(held)
    return roc_area(scores, ~held.clean)


def roc_area(scores: Tensor, wrong: Tensor) -> float:
    """Return how often a wrong label has the higher score of the two; equal ones count half."""
    _, where, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = counts.cumsum(dim=0).double() - (counts - 1).double() / 2
    bad = wrong.sum().double()
    below = ranks[where][wrong].sum() - bad * (bad + 1) / 2
    area: float = (below / (bad * (~wrong).sum())).item()
    return area


def rare_recall(runner: Runner, scene: Scene) -> float:
    """Return the mean recall of the rare classes by the averaged weights; NaN without a tail."""
    recalls, data = [], scene.data
    for number in scene.rare:
        rows = data.test_labels == number
        accuracy = runner.accuracy(data.test_inputs[rows], data.test_labels[rows])
        recalls.append(accuracy.raw if accuracy.ema is None else accuracy.ema)
    return sum(recalls) / len(recalls) if recalls else math.nan


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
