"""The audit of OGRS: its three settings, an ablation of the default, and its price in the long run.

A cell is one training run; its result is one line of a CSV file. MNIST and CIFAR-10 cells hold
5,000 samples from the first slot on, a 2-layer MLP, SGD at 0.1; the first 500 slots are naive, or
a quarter of them where that is fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import perf_counter

import torch
from torch import Generator

from tamis.buffers import Growing, Sliding
from tamis.data import Picks, Samples
from tamis.lab.ogrs_variants import OGRSVariant, released
from tamis.model_view import ModelView
from tamis.models import logistic, mlp, start
from tamis.monitoring import Monitor
from tamis.selectors import ITLM, OGRS, Naive, Oracle, PaperOGRS, Selector
from tamis.selectors.sampling import draw
from tamis.streams import Constant, DataSet, Replay, Symmetric, cifar10, digits, gaussians, mnist
from tamis.training import Trainer
from tamis.training.window import WindowSetting

HELD = 5000
WARM_UP = 500
WINDOWS: tuple[WindowSetting, ...] = (5, "average")


@dataclass(frozen=True)
class Cell:
    """One run: what is trained on what, and for how long."""

    part: str
    name: str
    selector: Selector
    data: str = "mnist"
    clean_ratio: float = 0.5
    slots: int = 5000
    k: int = 32
    window: WindowSetting = 1
    pool_size: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """What a run came to. `stayed` and `distinct` show whether chains move apart."""

    part: str
    name: str
    data: str
    clean_ratio: float
    seed: int
    slots: int
    accuracy: float
    accuracy_ema: float
    purity: float
    coverage: float
    stayed: float
    distinct: float
    highest_price: float
    milliseconds: float


@dataclass(frozen=True)
class ReleasedITLM:
    """What the authors' script calls ITLM: it keeps the LARGEST losses. For the audit only."""

    trim: float

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick k rows at random among the share 1 - trim of largest loss."""
        kept = max(1, int((1 - self.trim) * len(pool)))
        highest = view.losses(pool.inputs, pool.labels).topk(kept).indices
        return Picks(draw(highest, k, generator))


def cells(part: str) -> list[Cell]:
    """List the runs of a part."""
    return list({"settings": settings, "ablation": ablation, "bars": bars, "price": price}[part]())


def settings() -> Iterator[Cell]:
    """Methods as they should be, and as the authors' script has them; a short run.

    The paper's and the script's settings look at every row for every step of every chain, so here
    they see a random 500 of the 5,000; a test shows both equal to their loops.
    """
    methods: dict[str, tuple[Selector, int | None]] = {
        "naive": (Naive(), None),
        "oracle": (Oracle(), None),
        "ITLM, keep 0.5": (ITLM(0.5), 1000),
        "ITLM of the script, tau 0.5": (ReleasedITLM(0.5), 1000),
        "OGRS, default": (OGRS(), None),
        "OGRS, paper": (PaperOGRS(), 500),
        "OGRS, paper, alpha 10": (PaperOGRS(step_size=10), 500),
        "OGRS, paper, alpha 10, zeta 1000": (PaperOGRS(step_size=10, max_uses=1000), 500),
        "OGRS, released": (released(), 500),
    }
    for name, (selector, pool_size) in methods.items():
        yield Cell("settings", name, selector, slots=1500, pool_size=pool_size)


def ablation() -> Iterator[Cell]:
    """The default with one thing changed at a time, at clean ratios 0.5 and 0.3."""
    default = OGRSVariant()  # the picks of `OGRS()`
    changes: dict[str, OGRSVariant] = {"default": default}
    for size in (1.0, 2.0, 3.0, 6.0, 10.0):
        changes[f"step_size {size:g}"] = replace(default, step_size=size)
    for steps in (1, 2, 5, 20):
        changes[f"steps {steps}"] = replace(default, steps=steps)
    for uses in (1.0, 2.0, 4.0, math.inf):
        changes[f"max_uses {uses:g}"] = replace(default, max_uses=min(uses, 1e9))
    for candidates in (256, 512, 1024):
        changes[f"candidates {candidates}"] = replace(default, candidates=candidates)
    chains = replace(default, starts="picks")
    changes |= {
        "space inputs": replace(default, space="inputs"),
        "same_label": replace(default, same_label=True),
        "starts picks": chains,
        "starts picks, max_uses 2": replace(chains, max_uses=2),
        "starts picks, max_uses 2, at once": replace(chains, max_uses=2, in_turn=False),
        "starts picks, max_uses 2, price carried": replace(chains, max_uses=2, carry_price=True),
        "starts picks, max_uses 2, visits count": replace(chains, max_uses=2, uses="visits"),
    }
    for clean_ratio in (0.5, 0.3):
        for name, selector in changes.items():
            yield Cell("ablation", name, selector, clean_ratio=clean_ratio, slots=3000)
        for window in WINDOWS:
            name = "window: average" if window == "average" else f"window {window}"
            yield Cell("ablation", name, default, "mnist", clean_ratio, 3000, window=window)
        for k in (8, 64):
            yield Cell("ablation", f"k {k}", default, "mnist", clean_ratio, 3000, k)


def bars() -> Iterator[Cell]:
    """The default at three clean ratios, and on three data sets, with seeds not used to set it."""
    methods: dict[str, Selector] = {"OGRS": OGRS(), "naive": Naive(), "oracle": Oracle()}
    for seed in (10, 11, 12):
        for clean_ratio in (0.9, 0.5, 0.3):
            for name, selector in methods.items():
                yield Cell("bars", name, selector, "mnist", clean_ratio, seed=seed)
        for data in ("gaussians", "digits", "cifar10"):
            yield Cell("bars", "OGRS", OGRS(), data, 0.6, 2000, seed=seed)


def price() -> Iterator[Cell]:
    """The default over 100,000 slots of a sliding buffer: does its price stay bounded?"""
    yield Cell("price", "OGRS", OGRS(), "gaussians stream", 0.6, 100_000, k=8)
    tight = OGRS(max_uses=1.5, price_step=0.1)
    yield Cell("price", "OGRS, max_uses 1.5", tight, "gaussians stream", 0.6, 100_000, k=8)


def run_cell(cell: Cell, folder: Path | None = None) -> Result:
    """Train on a stream, and return its results."""
    torch.set_num_threads(1)
    data = load(cell.data, folder)
    trainer, items = prepare(cell, data)
    monitor = Monitor(every=cell.slots)
    stayed, distinct, highest, searched = 0.0, 0.0, 0.0, 0
    started = perf_counter()
    for slot in (trainer.step(next(items, None)) for _ in range(cell.slots)):
        monitor.update(slot)
        if slot.stayed is not None:
            searched += 1
            stayed += slot.stayed
            distinct += len(slot.ids.unique()) / cell.k
            highest = max(highest, slot.price or 0.0)
    took = perf_counter() - started
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels)
    nothing = math.nan if not searched else 0.0
    return Result(
        cell.part, cell.name, cell.data, cell.clean_ratio, cell.seed, cell.slots,
        accuracy.raw, accuracy.ema or math.nan, monitor.purity or math.nan, slot.coverage or 0.0,
        nothing + stayed / max(1, searched), nothing + distinct / max(1, searched),
        nothing + highest, 1000 * took / cell.slots,
    )  # fmt: skip


def prepare(cell: Cell, data: DataSet) -> tuple[Trainer, Iterator[Samples]]:
    """Build the trainer and the stream of a cell; the cell's seed sets all random numbers."""
    generator = Generator().manual_seed(cell.seed)
    rows = torch.randperm(len(data.labels), generator=generator)[:HELD]
    streaming = cell.data.endswith("stream")
    factory = logistic if cell.data.startswith("gaussians") else mlp
    model = start(factory, data.input_shape, len(data.classes), cell.seed)
    stream = Replay(
        data.inputs[rows],
        data.labels[rows],
        Symmetric(len(data.classes)),
        Constant(cell.clean_ratio),
        slots=cell.slots if streaming else 1,
        rows_per_slot=1 if streaming else len(rows),
        seed=cell.seed,
    )
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        cell.selector,
        Sliding(200) if streaming else Growing(len(rows)),
        k=cell.k,
        warm_up=min(WARM_UP, cell.slots // 4),
        window=cell.window,
        pool_size=cell.pool_size,
        predict_first=False,
        seed=cell.seed,
    )
    return trainer, iter(stream)


def load(name: str, folder: Path | None) -> DataSet:
    """Load a data set by the name that a cell gives it."""
    loaders = {"mnist": mnist, "cifar10": cifar10, "digits": digits, "gaussians": gaussians}
    return loaders[name.removesuffix(" stream")](folder)


def header() -> list[str]:
    """Return the columns of a CSV file of results."""
    return [field.name for field in fields(Result)]


def as_row(result: Result) -> list[str]:
    """Write a result as a line of a CSV file."""
    return [f"{x:.4f}" if isinstance(x, float) else str(x) for x in asdict(result).values()]


def key(cell: Cell | Result) -> tuple[str, ...]:
    """Return what identifies a cell."""
    ratio = f"{cell.clean_ratio:.4f}"
    return (cell.part, cell.name, cell.data, ratio, str(cell.seed), str(cell.slots))
