"""The paper's table (tab:com): MNIST and CIFAR-10 at fixed clean ratios, every rule in one setting.

A run is one cell of the table under one seed; what it leaves is a curve, some lines of a CSV file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Generator, Tensor, nn

from tamis.data import Picks, Samples, to_device
from tamis.lab.audit import ReleasedITLM
from tamis.lab.board import estimated_by
from tamis.lab.builders import selecting
from tamis.lab.methods import METHODS, Method
from tamis.lab.ogrs_variants import OGRSVariant, Walk, printed
from tamis.lab.rows import key
from tamis.lab.scene import Place, Scene
from tamis.model_view import ModelView
from tamis.models import mlp, resnet18
from tamis.selectors import BARE, ITLM, OGRS, Naive, Oracle
from tamis.selectors.ogrs.rule import locate
from tamis.selectors.sampling import trainable
from tamis.streams import DataSet, cifar10, digits, mnist
from tamis.training import Trainer
from tamis.training.augment import ShiftAndFlip

DATA: dict[str, Callable[[Path | None], DataSet]] = {
    "mnist": mnist, "cifar10": cifar10, "digits": digits,
}  # fmt: skip
"""The paper has the first two. The digits are small: to try the command by."""
CLEAN_RATIOS = (0.9, 0.7, 0.5, 0.3)
ITLM_RATIOS = (0.9, 0.7, 0.5, 0.3)
"""Clean ratios that ITLM is given: phi-hat in the paper."""
PAPER: dict[str, dict[str, tuple[float | None, ...]]] = {
    "mnist": {
        "OGRS": (0.9273, 0.8952, 0.8886, 0.8607),
        "naive": (0.9035, 0.8849, 0.8479, 0.8098),
        "oracle": (0.9208, 0.9225, 0.9132, 0.8852),
        "ITLM 0.9": (0.9188, 0.9133, 0.8881, 0.7742),
        "ITLM 0.7": (0.7459, 0.8325, 0.7374, 0.6843),
        "ITLM 0.5": (0.5654, 0.5744, 0.6635, 0.5638),
        "ITLM 0.3": (0.3987, 0.4021, 0.3707, 0.4003),
    },
    "cifar10": {
        "OGRS": (0.6502, 0.5827, 0.5149),
        "naive": (0.6913, 0.5514, 0.3456),
        "oracle": (0.7502, 0.7436, 0.7448),
        "ITLM 0.9": (0.6281, 0.4466, 0.3726),
        "ITLM 0.7": (0.5646, None, 0.3105),
        "ITLM 0.5": (0.5331, None, None),
        "ITLM 0.3": (0.5491, 0.4006, None),
    },
}
"""Test accuracy in the paper's table 1, at the clean ratios above; None is its N/A."""


@dataclass(frozen=True)
class Settings:
    """Everything that the table and the dynamic stream are run with, the same in every cell.

    The paper gives slots, warm_up, part_rows, part_slots and the kinds of model. The rest was
    chosen once, before any run of the table; WHY gives the reasons.
    """

    slots: int = 10_000
    warm_up: int = 500
    part_rows: int = 5000
    part_slots: int = 5000
    k: int = 64
    rate: float = 0.05
    decay: float = 0.995
    window: int = 1
    ogrs: OGRS = field(default_factory=OGRS)
    candidates: int = 256
    ranked: int = 256
    model: Callable[[tuple[int, ...], int], nn.Module] = mlp
    colour_model: Callable[[tuple[int, ...], int], nn.Module] = resnet18
    augment: ShiftAndFlip = field(default_factory=ShiftAndFlip)
    every: int = 500
    part_every: int = 1000
    is_quick: bool = False

    @classmethod
    def quick(cls) -> Settings:
        """Set minutes on two cores, for a look: not the paper's experiment."""
        return cls(
            slots=1000, part_slots=250, every=50, part_every=50, colour_model=mlp, is_quick=True
        )

    def place(self, data: str) -> Place:
        """Set the place where all methods compete on a data set."""
        grey = Place(
            DATA[data], self.slots, None, k=self.k, warm_up=self.warm_up, model=self.model,
            rate=self.rate, decay=self.decay, gpu=True,
        )  # fmt: skip
        if data != "cifar10":
            return grey
        return replace(
            grey, model=self.colour_model, augment=self.augment, precision=torch.bfloat16
        )

    def named(self, experiment: str) -> str:
        """Return an experiment's name, marked where it is the quick version."""
        return f"quick {experiment}" if self.is_quick else experiment


WHY = {
    "slots": "the paper's",
    "warm_up": "the paper's: naive slots at the start; Plausible alone needs none and has none",
    "part_rows": "the paper's, of the dynamic stream: rows in each of its four parts",
    "part_slots": "the paper's, of the dynamic stream: slots until the next part",
    "k": "K, rows a slot: as on CIFAR-10 in this project before; plain SGD trains ResNet-18 by it",
    "rate": "of SGD without momentum or weight decay, never lowered: a stream has no last epoch",
    "decay": "of the averaged weights: about the last 200 slots",
    "window": "w: the newest state alone; the averaged weights stand beside every number",
    "ogrs": "M is steps, alpha step_size, gamma price_step, zeta max_uses: the library's default,"
    " set on 5,000 rows of MNIST",
    "candidates": "rows that OGRS as printed walks among, drawn again each slot: 4 a pick, as many"
    " as the default looks at; the paper goes past all rows at every step of every chain",
    "ranked": "rows that ITLM ranks, drawn again each slot: as many as the other rules look at; to"
    " rank all 50,000 a slot would cost more than two hundred naive ones",
    "model": "MNIST: the paper's; its width is not given, here 256 hidden units",
    "colour_model": "CIFAR-10: the paper's; here with the stem for small images",
    "augment": "CIFAR-10 alone: the usual one; a mirrored digit is none",
    "every": "slots from one line of a curve to the next",
    "part_every": "the same, of the dynamic stream, which has twice the slots",
}
"""Why each setting is what it is."""


@dataclass(frozen=True)
class Run:
    """One training run: an experiment on some data, by one method, from one seed.

    `reading` is that of the dynamic stream, and `clean_ratio` is the mean there.
    """

    experiment: str
    data: str
    reading: str
    clean_ratio: float
    method: str
    seed: int


@dataclass(frozen=True)
class Line(Run):
    """What a run had come to after `slot` slots; purity and time are means since the last line."""

    slot: int
    accuracy: float
    accuracy_ema: float
    purity: float
    coverage: float
    clean_ratio_true: float
    clean_ratio_estimated: float
    milliseconds: float
    machine: str


@dataclass(frozen=True)
class Printed:
    """OGRS as printed, among random candidates: the picks of `printed(candidates=...)`.

    Its chains go one by one, and each pays for the visits of all before it: hundreds of steps
    that a GPU would take one at a time. Here numpy takes them, on the host.
    """

    candidates: int

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick the rows where chains stand after the last step, one a chain."""
        rule = printed(candidates=self.candidates)
        rows, starts, _ = rule.plan(len(pool), k, generator)
        among = pool[to_device(rows, pool.labels.device)]
        points, gradients = locate(among, view, rule.space)
        walk = Walk(rule, among, points, lambda rows: gradients[rows])
        ends = torch.tensor(walk_one_by_one(rule, walk, starts.tolist()))
        return Picks(trainable(pool, to_device(rows[ends], pool.labels.device)))


def walk_one_by_one(rule: OGRSVariant, walk: Walk, starts: Sequence[int]) -> list[int]:
    """Walk chains to their ends, all at one price that every visit moves (eq. 7 and 8)."""
    if walk.costs is None:
        raise ValueError("The costs of all moves are known among candidates alone.")
    costs, excess = walk.costs.cpu().numpy(), walk.excess.cpu().numpy()
    gamma, price, ends = walk.gamma.item(), costs.dtype.type(0), []
    for at in starts:
        for _ in range(rule.steps):
            price = max(0 * price, price + costs.dtype.type(gamma) * excess[at])
            at = int((costs[at] + price * excess).argmin())
            excess[at] += 1
        ends.append(at)
    return ends


def methods(settings: Settings) -> dict[str, Method]:
    """Return the rows of the table by name, each with its builder."""
    window, few = settings.window, {"window": settings.window, "pool_size": settings.ranked}
    rows = [
        Method("OGRS", selecting(lambda _: settings.ogrs, window=window), "ogrs"),
        Method(
            "OGRS, paper", selecting(lambda _: Printed(settings.candidates), window=window), "ogrs"
        ),
        Method("naive", selecting(lambda _: Naive(), window=window), "ogrs"),
        Method("oracle", selecting(lambda _: Oracle(), window=window), "ogrs"),
        *(Method(f"ITLM {keep}", selecting(trimming(keep), **few), "itlm") for keep in ITLM_RATIOS),
        Method(
            "ITLM, released script",
            selecting(lambda scene: ReleasedITLM(scene.clean_ratio), **few),
            "itlm",
        ),
        Method("BARE", selecting(lambda _: BARE(), window=window), "bare"),
        next(method for method in METHODS if method.name == "Plausible"),
    ]
    return {method.name: method for method in rows}


def trimming(keep: float) -> Callable[[Scene], ITLM]:
    """Return a builder of ITLM with a fixed clean ratio, whatever the cell's is."""
    return lambda _: ITLM(keep)


def runs(
    settings: Settings,
    data: Sequence[str],
    clean_ratios: Sequence[float],
    names: Sequence[str],
    seeds: Sequence[int],
) -> list[Run]:
    """List the runs of the table: seeds outermost, so that it fills evenly."""
    return [
        Run(settings.named("table"), place, "", ratio, name, seed)
        for seed in seeds
        for place in data
        for ratio in clean_ratios
        for name in names
    ]


def run_table(run: Run, settings: Settings, folder: Path | None = None) -> list[Line]:
    """Train in one cell of the table, and return its curve."""
    data = load(run.data, folder)
    place = settings.place(run.data)
    scene = Scene(place, data, "symmetric", run.clean_ratio, settings.slots, run.seed)
    return follow(run, settings, settings.every, scene, scene.stream())


def follow(
    run: Run, settings: Settings, every: int, scene: Scene, items: Iterator[Any]
) -> list[Line]:
    """Train on what arrives, and take a line down now and then."""
    torch.set_num_threads(1)  # runs share the machine; one against two threads gives other bits
    trainer = methods(settings)[run.method].build(scene)
    if not isinstance(trainer, Trainer):
        raise TypeError(f"{run.method} is no trainer whose pool can be looked at.")
    lines, purities, on = list[Line](), list[Tensor](), machine(scene.place.device)
    unknown, started = torch.tensor(math.nan, device=trainer.device), perf_counter()
    for number in range(1, scene.slots + 1):
        slot = trainer.step(next(items, None))
        purity = slot.figures["purity"]
        purities.append(unknown if purity is None else purity)
        if number % every and number < scene.slots:
            continue
        mean_purity = torch.stack(purities).nanmean().item()  # waits for the device to be done
        took = perf_counter() - started
        accuracy = trainer.accuracy(scene.data.test_inputs, scene.data.test_labels)
        clean = trainer.buffer.pool().clean
        lines.append(
            Line(
                **asdict(run), slot=number, accuracy=accuracy.raw,
                accuracy_ema=math.nan if accuracy.ema is None else accuracy.ema,
                purity=mean_purity, coverage=slot.coverage or 0.0,
                clean_ratio_true=math.nan if clean is None else clean.float().mean().item(),
                clean_ratio_estimated=estimated_by(trainer),
                milliseconds=1000 * took / len(purities), machine=on,
            )
        )  # fmt: skip
        purities.clear()
        started = perf_counter()
    return lines


def by_run(lines: Sequence[Line]) -> dict[tuple[str, ...], list[Line]]:
    """Sort lines by run.

    Where a run is there twice, as after files were put together, the later one counts.
    """
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        before = found.setdefault(key(line, Run), [])
        if before and line.slot <= before[-1].slot:
            before.clear()
        before.append(line)
    return found


def is_complete(curve: Sequence[Line], slots: int) -> bool:
    """Return whether a curve has all its lines, evenly spaced."""
    return curve[-1].slot >= slots and len(curve) == -(-curve[-1].slot // curve[0].slot)


@lru_cache(maxsize=1)
def load(name: str, folder: Path | None) -> DataSet:
    """Load a data set once for all runs of a process."""
    return DATA[name](folder)


def machine(device: str) -> str:
    """Return a short name of the machine, for every line."""
    what = f"{os.cpu_count()} cores"
    if device == "cuda":
        what = torch.cuda.get_device_name().removeprefix("NVIDIA ")
    return f"{what} torch {torch.__version__.split('+')[0]}"
