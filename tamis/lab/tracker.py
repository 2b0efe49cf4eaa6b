"""The tracker and its alarm on streams that are seen once, steady or changed in the middle.

A cell is one training run; its result is one line of a CSV file. Rows arrive a few a slot, are
predicted, and only then learned from, out of the newest 5,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from tamis.buffers import Sliding
from tamis.data import Samples
from tamis.lab.noise_kinds import NOISES
from tamis.models import MODELS, start
from tamis.noise import Alarm, Change, Estimate, Tracker
from tamis.selectors import OGRS, Naive, Plausible, Selector
from tamis.sources import Validator
from tamis.streams import Constant, Replay, Steps, cifar10, digits, fashion_mnist, mnist
from tamis.training import Execution, Trainer

DATA = {load.__name__: load for load in (digits, mnist, fashion_mnist, cifar10)}
"""Rows that can be rotated: images."""
HELD = 5000
WARM_UP = 500
"""Slots that nothing is measured in, and that the other rules pick at random in."""
RATES = {"resnet18": 0.05}
RATE = 0.1
FIRST_SEED = 10
"""Seeds below set the tracker and its alarm."""
EVERY = 10
"""Slots from one measurement to the next."""
NEAR = 0.05
IN_TIME = 1000
"""Slots within which a change must be followed, and an alarm given."""
AFTER = 0.5
"""Clean ratio after a change of noise."""
SELECTORS: dict[str, Callable[[], Selector]] = {
    "naive": Naive, "OGRS": OGRS, "Plausible": Plausible,
}  # fmt: skip
AVERAGED = ("Plausible",)
"""Those that look through the averaged weights, from the first slot on."""
RIGHT_KINDS = {"noise": "noise", "rotated": "concept", "inverted": "concept", "permuted": "concept"}
"""Changes in the middle of a stream, and what an alarm should call each."""
STEADY = "none"
STREAMS = (
    ("symmetric", 0.9), ("symmetric", 0.7), ("symmetric", 0.5), ("symmetric", 0.3), ("pair", 0.6),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One run."""

    change: str = STEADY
    selector: str = "naive"
    data: str = "mnist"
    model: str = "mlp"
    noise: str = "symmetric"
    clean_ratio: float = 0.9
    slots: int = 10_000
    rows: int = 6
    k: int = 10
    seed: int = 0

    @property
    def changes_at(self) -> int:
        """Slot from which all is different; the number of slots, if nothing ever is."""
        return self.slots if self.change == STEADY else self.slots // 2


@dataclass(frozen=True)
class Result(Cell):
    """What a run came to.

    `error` is the mean distance of the estimate from the clean ratio, `held` the share of bands
    with that ratio in them, `width` their mean width: of a plain tracker after the warm-up, before
    any change. `followed` counts slots from a change of noise until the estimate is within 0.05 of
    the new ratio, `followed_by_alarm` those of the alarm's own estimate, `late_error` is the error
    from 1,000 slots after it on. `false_alarms` were given while nothing had changed. The first
    alarm after a change came `delay` slots later and reported `kind`; `repeats` came after it.
    """

    error: float = math.nan
    held: float = math.nan
    width: float = math.nan
    followed: float = math.nan
    followed_by_alarm: float = math.nan
    late_error: float = math.nan
    false_alarms: int = 0
    delay: float = math.nan
    kind: str = ""
    repeats: int = 0
    accuracy: float = math.nan
    seconds: float = math.nan


@dataclass(frozen=True)
class Reading:
    """Both estimates at a slot, and the clean ratio there."""

    slot: int
    truth: float
    estimate: Estimate
    by_alarm: Estimate

    @property
    def off(self) -> float:
        """How far the plain tracker is from the truth."""
        return abs(self.estimate.value - self.truth)


class Both(Tracker):
    """A plain tracker, and an alarm that sees the same predictions."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.alarm = Alarm(classes)

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Update both with the rows of a slot."""
        super().update(probabilities, labels)
        self.alarm.update(probabilities, labels)


def cells(
    settings: Cell, selectors: Sequence[str], changes: Sequence[str], seeds: int
) -> list[Cell]:
    """List the runs: steady streams, then those that change; seeds outermost."""
    steady = [replace(settings, noise=noise, clean_ratio=ratio) for noise, ratio in STREAMS]
    changed = [replace(settings, change=change) for change in changes]
    return [
        replace(cell, selector=selector, seed=seed)
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
        for selector in selectors
        for cell in (*steady, *changed)
    ]


def run_cell(cell: Cell, folder: Path | None = None, device: str = "cpu") -> Result:
    """Train on a stream, and return how well it was followed."""
    torch.set_num_threads(1)
    started = perf_counter()
    data = DATA[cell.data](folder)
    classes = len(data.classes)
    ratio = (
        Steps((cell.clean_ratio, AFTER)) if cell.change == "noise" else Constant(cell.clean_ratio)
    )
    noise = NOISES[cell.noise](classes, data.inputs, data.labels)
    stream = Replay(
        data.inputs, data.labels, noise, ratio,
        slots=cell.slots, rows_per_slot=cell.rows, seed=cell.seed,
    )  # fmt: skip
    factory = {model.__name__: model for model in MODELS}[cell.model]
    model = start(factory, data.input_shape, classes, cell.seed).to(device)
    both, unmeasured = Both(classes), min(WARM_UP, cell.slots // 4)
    averaged = cell.selector in AVERAGED
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), RATES.get(cell.model, RATE)),
        SELECTORS[cell.selector](), Sliding(HELD), k=cell.k, warm_up=0 if averaged else unmeasured,
        window="average" if averaged else 1, tracker=both, validator=Validator(classes),
        execution=Execution(device), seed=cell.seed,
    )  # fmt: skip
    readings, alarms = [], []
    for slot in trainer.run(changed(stream, cell, classes)):
        if change := both.alarm.pop_change():
            alarms.append((slot.number, change))
        if slot.number >= unmeasured and slot.number % EVERY == 0:
            truth = ratio(stream.time(slot.number))
            readings.append(Reading(slot.number, truth, both.estimate(), both.alarm.estimate()))
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels).ema
    return Result(
        **asdict(cell), **measure(cell, readings), **judge(cell, alarms),
        accuracy=accuracy or math.nan, seconds=perf_counter() - started,
    )  # fmt: skip


def changed(stream: Replay, cell: Cell, classes: int) -> Iterator[Samples]:
    """Play a stream, and change it in the middle. A change of noise is the stream's own."""
    for slot, samples in enumerate(stream):
        if slot >= cell.changes_at:
            if cell.change == "rotated":
                samples = replace(samples, inputs=samples.inputs.rot90(dims=(-2, -1)))
            elif cell.change == "inverted":
                samples = replace(samples, inputs=1 - samples.inputs)
            elif cell.change == "permuted":
                samples = replace(samples, labels=(samples.labels + 3) % classes)
        yield samples


def measure(cell: Cell, readings: Sequence[Reading]) -> dict[str, Any]:
    """Hold estimates against the truth, while nothing has changed and after a change of noise."""
    steady = [reading for reading in readings if reading.slot < cell.changes_at]
    later = [reading for reading in readings if reading.slot >= cell.changes_at]
    figures = {
        "error": average([reading.off for reading in steady]),
        "held": average([r.estimate.low <= r.truth <= r.estimate.high for r in steady]),
        "width": average([r.estimate.high - r.estimate.low for r in steady]),
    }
    if cell.change != "noise":
        return figures
    late = [reading.off for reading in later if reading.slot >= cell.changes_at + IN_TIME]
    by_alarm = [reading.slot for reading in later if abs(reading.by_alarm.value - AFTER) <= NEAR]
    plain = [reading.slot for reading in later if reading.off <= NEAR]
    return figures | {
        "followed": first(plain) - cell.changes_at,
        "followed_by_alarm": first(by_alarm) - cell.changes_at,
        "late_error": average(late),
    }


def judge(cell: Cell, alarms: Sequence[tuple[int, Change]]) -> dict[str, Any]:
    """Separate correct alarms from false ones."""
    later = [
        (slot - cell.changes_at, change.kind) for slot, change in alarms if slot >= cell.changes_at
    ]
    figures: dict[str, Any] = {"false_alarms": len(alarms) - len(later)}
    if later:
        delay, kind = later[0]
        figures |= {"delay": float(delay), "kind": kind, "repeats": len(later) - 1}
    return figures


def average(values: Sequence[float]) -> float:
    """Mean, or not a number where there is nothing."""
    return float(mean(values)) if values else math.nan


def first(values: Sequence[int]) -> float:
    """First of some slots; never, if there is none."""
    return float(values[0]) if values else math.inf


@dataclass(frozen=True)
class Score:
    """How an alarm did on one kind of stream, and how one that fires at random would.

    `found` is the share of changes with an alarm in time, `named` the share with the right kind
    as well; `delay` the mean delay in slots. On steady streams `found` is the share of runs with
    an alarm, all of them false, and it counts every run up to its change.
    """

    change: str
    runs: int
    found: float
    named: float
    delay: float
    dummy_found: float
    dummy_named: float


def scores(results: Sequence[Result]) -> list[Score]:
    """Score the alarm on steady streams and on each change, beside a dummy of the same rate.

    The dummy has the mean rate and the mix of kinds of all alarms that were given, and fires with
    no regard to the stream.
    """
    kinds = [result.kind for result in results if result.kind]
    alarms = sum(r.false_alarms + r.repeats + bool(r.kind) for r in results)
    rate = alarms / sum(result.slots for result in results)
    parts = [steady_score(results, rate)]
    for change, right in RIGHT_KINDS.items():
        mine = [result for result in results if result.change == change]
        if not mine:
            continue
        in_time = [result for result in mine if result.delay <= IN_TIME]
        at_random = mean(1 - math.exp(-rate * min(IN_TIME, r.slots - r.changes_at)) for r in mine)
        parts.append(
            Score(
                change, len(mine), len(in_time) / len(mine),
                sum(result.kind == right for result in in_time) / len(mine),
                average([result.delay for result in in_time]),
                at_random, at_random * kinds.count(right) / max(1, len(kinds)),
            )
        )  # fmt: skip
    return parts


def steady_score(results: Sequence[Result], rate: float) -> Score:
    """Share of runs with a false alarm."""
    steady = [result for result in results if result.change == STEADY]
    wrong = average([float(result.false_alarms > 0) for result in steady])
    at_random = average([1 - math.exp(-rate * result.slots) for result in steady])
    return Score(STEADY, len(steady), wrong, math.nan, math.nan, at_random, math.nan)


def false_rate(results: Sequence[Result]) -> float:
    """False alarms in 10,000 rows that had not changed, after the warm-up."""
    rows = sum(r.rows * max(0, r.changes_at - WARM_UP) for r in results)
    return 10_000 * sum(result.false_alarms for result in results) / max(1, rows)
