"""Six methods side by side on digits that arrive one by one, with labels less and less right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tamis.buffers import Growing
from tamis.data import Samples, Slot, concat
from tamis.models import mlp, start
from tamis.monitoring import Monitor, SlotRecord
from tamis.noise import Estimate, Tracker
from tamis.review import find_suspects
from tamis.runs import Suspect
from tamis.selectors import ITLM, OGRS, Naive, Oracle, Plausible, Selector
from tamis.streams import DataSet, GroundTruth, Replay, Steps, Symmetric, digits
from tamis.training import Trainer
from tamis.training.window import WindowSetting

LEAD = "Plausible"
"""The default, which the page is about; the others stand beside it."""
TRACKED = 10
"""Slots from one estimate of the clean ratio to the next."""


@dataclass(frozen=True)
class Settings:
    """Everything that the demo is run with; the warm-up is that of all methods but the lead."""

    clean_ratios: tuple[float, ...] = (0.9, 0.5, 0.8, 0.4)
    slots_per_row: int = 1
    k: int = 32
    warm_up: int = 100
    rate: float = 0.3
    ema: float = 0.99
    test_every: int = 50
    half_life: float = 120.0
    seed: int = 0


@dataclass(frozen=True)
class Method:
    """A selector, its first slots that pick at random, and the states that it looks through."""

    selector: Selector
    warm_up: int
    window: WindowSetting = 1


@dataclass(frozen=True)
class Result:
    """What one method did.

    `tracked` is the clean ratio as it was estimated at some slots, `predicted` the class that the
    averaged weights predict in the end for every row. Suspects are those of the lead alone.
    """

    name: str
    tested: list[SlotRecord]
    purity: float | None
    coverage: float
    seconds_per_slot: float
    warnings: list[str]
    suspects: list[Suspect]
    tracked: dict[int, Estimate]
    predicted: list[int]


@dataclass(frozen=True)
class Demo:
    """The stream, and the methods to train on it. `rows` are all of it; their groups are true."""

    settings: Settings
    data: DataSet
    stream: Replay
    rows: Samples
    ground_truth: GroundTruth
    methods: dict[str, Method]

    @property
    def slots(self) -> int:
        """Slots of one method."""
        return len(self.stream) * self.settings.slots_per_row

    def clean_ratio(self, slot: int) -> float:
        """Share of arriving labels that are right at a slot."""
        return self.stream.clean_ratio(self.stream.time(slot // self.settings.slots_per_row))


def prepare(settings: Settings) -> Demo:
    """Load the digits and corrupt their labels."""
    data = digits()
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Steps(settings.clean_ratios), seed=settings.seed
    )
    rows = concat(list(replace(stream, groups=data.labels)))
    ground_truth = GroundTruth.of([rows])
    truth = round(ground_truth.clean_ratio, 2)
    others: dict[str, Selector] = {
        "naive": Naive(),
        "ITLM, keep 0.95": ITLM(0.95),
        f"ITLM, keep {truth} (true)": ITLM(truth),
        "OGRS": OGRS(),
        "oracle": Oracle(),
    }
    methods = {name: Method(selector, settings.warm_up) for name, selector in others.items()}
    lead = Method(Plausible(), warm_up=0, window="average")
    return Demo(settings, data, stream, rows, ground_truth, {LEAD: lead} | methods)


def run_method(demo: Demo, name: str, log: Path, progress: Callable[[Slot], None]) -> Result:
    """Train one method on the complete stream."""
    settings, data, method = demo.settings, demo.data, demo.methods[name]
    model = start(mlp, data.input_shape, len(data.classes), settings.seed)
    tracker, tracked = Tracker(len(data.classes), settings.half_life), {}
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), settings.rate),
        deepcopy(method.selector),  # what one run teaches a selector is no business of the next
        Growing(len(data.labels)),
        k=settings.k,
        warm_up=method.warm_up,
        window=method.window,
        ema=settings.ema,
        tracker=tracker,
        seed=settings.seed,
    )
    with Monitor(
        log, lambda: trainer.accuracy(data.test_inputs, data.test_labels), settings.test_every
    ) as monitor:
        for slot in slots_of(trainer, demo):
            monitor.update(slot)
            if slot.number % TRACKED == 0 and slot.number > settings.warm_up:
                tracked[slot.number] = tracker.estimate()
            progress(slot)
    ids = [str(row) for row in demo.rows.ids.tolist()]
    suspects: list[Suspect] = []
    if name == LEAD:
        suspects = find_suspects(trainer.averaged, [(demo.rows, ids)], data.classes, trainer.held())
    return Result(
        name,
        monitor.tested,
        monitor.purity,
        slot.coverage or 0.0,
        monitor.seconds / monitor.slots,
        monitor.warnings,
        suspects,
        tracked,
        trainer.averaged.logits(demo.rows.inputs).argmax(dim=1).tolist(),
    )


def slots_of(trainer: Trainer, demo: Demo) -> Iterator[Slot]:
    """One row arrives, then a few slots train on what is held."""
    for samples in demo.stream:
        yield trainer.step(samples)
        for _ in range(demo.settings.slots_per_row - 1):
            yield trainer.step()


def log_path(folder: Path, method: str) -> Path:
    """Return the path of a method's log."""
    name = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in method)
    return folder / f"log-{name.strip('-').lower()}.jsonl"
