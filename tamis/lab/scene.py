"""Where methods are compared: data, how rows arrive, and what all methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Optimizer

from tamis.buffers import Buffer, Growing, Reservoir, Sliding
from tamis.data import Samples
from tamis.lab.noise_kinds import NOISES
from tamis.lab.table_sets import made_table
from tamis.losses import (
    Criterion,
    cross_entropy,
    even_confusion,
)
from tamis.models import mlp, resnet18, start
from tamis.selectors import (
    Naive,
    Selector,
)
from tamis.sources import Validator
from tamis.streams import (
    BlurryTasks,
    Constant,
    DataSet,
    Noise,
    Ramp,
    Replay,
    Schedule,
    Steps,
    cifar10,
    digits,
    fashion_mnist,
    gaussians,
    mnist,
)
from tamis.training import Augment, Execution, Trainer
from tamis.training.augment import Mixup, ShiftAndFlip


@dataclass
class Passes:
    """Counts the rows that pass through models: forward, and those that are to come back."""

    forward: int = 0
    backward: int = 0

    def count(self, _: nn.Module, fed: tuple[Tensor, ...]) -> None:
        """Count a batch; with gradients enabled, backward as well."""
        self.forward += len(fed[0])
        self.backward += len(fed[0]) * torch.is_grad_enabled()


@dataclass(frozen=True)
class Place:
    """Where methods compete: rows, how they arrive, and what is the same for all methods.

    `held` rows arrive, and a quarter of all rows at the least stays out; or all rows arrive, where
    it is None. They do so in the first slot, or over all slots if `once`; the newest `kept` stay,
    or all. If it `drifts_from` another clean ratio, that one and the cell's take turns, twice
    each; or it `falls` from there in a straight line. If classes are to have a long `tail`, rows of
    the first class are so many times those of the last, and classes between in geometric steps.
    If there are `tasks`, rows come task by task, k at a time, with blurred boundaries, and a random
    sample of `kept` stays; each task has the same number of slots, the last without new rows.
    `decay` is that of the averaged weights. On a GPU, if there is one and `gpu` wants it, passes
    run in `precision` and, if `graphed`, as CUDA graphs, which nothing can count.
    """

    load: Callable[[Path | None], DataSet]
    slots: int = 1500
    held: int | None = 5000
    once: bool = False
    kept: int | None = None
    drifts_from: float | None = None
    falls: bool = False
    tail: int | None = None
    tasks: int | None = None
    k: int = 32
    warm_up: int = 500
    model: Callable[[tuple[int, ...], int], nn.Module] = mlp
    rate: float = 0.1
    decay: float = 0.99
    augment: Augment | None = None
    gpu: bool = False
    precision: torch.dtype | None = None
    graphed: bool = True

    @property
    def device(self) -> str:
        """Device of models and rows."""
        return "cuda" if self.gpu and torch.cuda.is_available() else "cpu"

    def execution(self) -> Execution:
        """Return how trainers execute here."""
        if self.device == "cpu":
            return Execution()
        return Execution(self.device, self.precision, graphed=self.graphed)


def two_gaussians(folder: Path | None = None) -> DataSet:
    """Return the paper's 200 rows of two Gaussians, with 3,000 others to test on.

    The paper's 100 would measure an accuracy to 5 points.
    """
    others = gaussians(folder, samples=9000, seed=1)
    return replace(
        gaussians(folder), test_inputs=others.test_inputs, test_labels=others.test_labels
    )


BASES = {
    "digits": Place(digits, slots=300),
    "mnist": Place(mnist),
    "fashion_mnist": Place(fashion_mnist),
    "cifar10": Place(cifar10),
    "gaussians": Place(two_gaussians, slots=300),
    "made-table": Place(made_table),
    "mnist-once": Place(mnist, slots=10_000, held=None, once=True, k=10),
    "mnist-drift": Place(
        mnist, slots=3000, held=30_000, once=True, kept=2000, drifts_from=0.9, k=16
    ),
    "mnist-mixup": Place(mnist, slots=5000, augment=Mixup(1.0)),
    "cifar10-resnet": Place(
        cifar10, slots=8000, held=None, k=64, model=resnet18, rate=0.05, decay=0.995,
        augment=ShiftAndFlip(), gpu=True, precision=torch.bfloat16,
    ),
    "digits-blurry": Place(digits, slots=300, once=True, kept=100, tasks=5, k=16, warm_up=20),
    "mnist-blurry": Place(
        mnist, slots=3000, held=15_000, once=True, kept=500, tasks=5, k=16, warm_up=200
    ),
    "cifar10-blurry": Place(
        cifar10, slots=43_125, held=None, once=True, kept=500, tasks=5, k=16, warm_up=600,
        model=resnet18, rate=0.05, decay=0.995, augment=ShiftAndFlip(), gpu=True,
        precision=torch.bfloat16,
    ),
}  # fmt: skip
TAILS = {
    "digits": (20, 100), "mnist": (20, 100, 1000), "cifar10": (20, 100, 1000),
    "made-table": (20, 100), "gaussians": (20,),
}  # fmt: skip
"""Long tails of a data set, as far as its rows reach."""
KEPT = {"digits": 300, "mnist": 2000, "cifar10": 2000, "made-table": 1000, "gaussians": 75}
"""Newest rows kept where the clean ratio falls."""
USES = dict.fromkeys(TAILS, (25, 100)) | {"gaussians": (100,)}
"""Times that a row is used where rows are few; the Gaussians' are used 64 times anyway."""


def variants(name: str, base: Place) -> dict[str, Place]:
    """Return the places of a data set with a long tail, few rows, or a clean ratio that falls."""
    fall = replace(base, once=True, kept=KEPT[name], drifts_from=0.9, falls=True)
    if base.held and KEPT[name] >= 2000:
        fall = replace(fall, held=15 * KEPT[name])
    picks = base.slots * base.k
    return {
        **{f"{name}-tail-{tail}": replace(base, tail=tail) for tail in TAILS[name]},
        **{f"{name}-few-{uses}": replace(base, held=picks // uses) for uses in USES[name]},
        f"{name}-fall": fall,
    }


PLACES = BASES | {
    name: place for base in TAILS for name, place in variants(base, BASES[base]).items()
}


@dataclass
class Scene:
    """One cell of the board without its method: what is trained on, and with what."""

    place: Place
    data: DataSet
    noise: str
    clean_ratio: float
    slots: int
    seed: int
    passes: Passes = field(default_factory=Passes)
    models: list[nn.Module] = field(default_factory=list)

    def __post_init__(self) -> None:
        order = torch.randperm(len(self.data.labels), generator=Generator().manual_seed(self.seed))
        most, held = len(order), self.place.held
        room = most if held is None else most * 3 // 4
        held = room if held is None else min(held, room)
        if self.place.tail is None:
            self.held, self.others = order[:held], order[held:]
        else:
            self.held, self.others = self._thinned(order[:room], held), self._thinned(order[room:])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.data.classes)

    @property
    def rare(self) -> range:
        """The third of the classes with the fewest rows, where there is a long tail."""
        count = max(1, self.classes // 3) if self.place.tail else 0
        return range(self.classes - count, self.classes)

    @property
    def warm_up(self) -> int:
        """Slots that are naive before a selector takes over."""
        return min(self.place.warm_up, self.slots // 4)

    def stream(self, chunks: int = 1) -> Iterator[Samples | None]:
        """Yield the rows held: at once, or in so many chunks, one a slot; None where none come."""
        return iter(self._replay(chunks))

    @cached_property
    def label_noise(self) -> Noise:
        """How labels go wrong; what it learns from data, it learns from the rows held."""
        inputs, labels = self.data.inputs[self.held], self.data.labels[self.held]
        return NOISES[self.noise](self.classes, inputs, labels)

    def schedule(self) -> Schedule:
        """Return how the clean ratio moves over the stream."""
        before, after = self.place.drifts_from, self.clean_ratio
        if before is None:
            return Constant(after)
        return Ramp(before, after) if self.place.falls else Steps((before, after, before, after))

    def confusion(self) -> Tensor:
        """Return the true confusion of labels, true class by given class.

        Where the kind of noise has no fixed one, it is counted in the stream.
        """
        right = torch.eye(self.classes)
        if self.noise == "symmetric":
            return even_confusion(self.classes, self.clean_ratio)
        if self.noise == "pair":
            return self.clean_ratio * right + (1 - self.clean_ratio) * right.roll(1, dims=1)
        counts = torch.zeros(self.classes, self.classes)
        for samples in filter(None, self._replay(groups=self.data.labels[self.held])):
            at = samples.groups, samples.labels
            counts.index_put_(at, torch.ones(len(samples)), accumulate=True)
        rows = counts.sum(dim=1, keepdim=True)
        return torch.where(rows > 0, counts / rows.clamp_min(1), right)

    def _replay(self, chunks: int = 1, groups: Tensor | None = None) -> Iterable[Samples | None]:
        """Return the stream in so many chunks, or as many as the place wants."""
        if self.place.tasks:
            return BlurryTasks(
                self.data.inputs[self.held], self.data.labels[self.held], self.label_noise,
                self.clean_ratio, max(1, self.slots // self.place.tasks), self.place.tasks,
                rows_per_slot=self.place.k, seed=self.seed, groups=groups,
            )  # fmt: skip
        chunks = self.slots if self.place.once else chunks
        return Replay(
            self.data.inputs[self.held],
            self.data.labels[self.held],
            self.label_noise,
            self.schedule(),
            slots=chunks,
            rows_per_slot=-(-len(self.held) // chunks),
            seed=self.seed,
            groups=groups,
        )

    def _thinned(self, rows: Tensor, most: int | None = None) -> Tensor:
        """Return rows of a long tail, as many as there can be."""
        labels = self.data.labels[rows]
        steps = torch.arange(self.classes) / max(1, self.classes - 1)
        shares = float(self.place.tail or 1) ** -steps
        first = (torch.bincount(labels, minlength=self.classes) / shares).min().item()
        if most is not None:
            first = min(first, most / shares.sum().item())
        counts = (first * shares).round().long().clamp_min(1)
        ranks = (nn.functional.one_hot(labels, self.classes).cumsum(0) - 1)[
            torch.arange(len(rows)), labels
        ]
        return rows[ranks < counts[labels]]

    def model(
        self, factory: Callable[[tuple[int, ...], int], nn.Module] | None = None
    ) -> nn.Module:
        """Make a model whose passes are counted; every further one starts from another seed."""
        seed = self.seed + 1000 * len(self.models)
        factory = factory or self.place.model
        made = start(factory, self.data.input_shape, self.classes, seed)
        if self.place.device == "cuda":
            made = made.cuda()
            made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        made.register_forward_pre_hook(self.passes.count)
        self.models.append(made)
        return made

    def buffer(self) -> Buffer:
        """Make a buffer for all rows, for the newest, or for a random sample."""
        if self.place.kept is None:
            return Growing(len(self.held))
        return Reservoir(self.place.kept) if self.place.tasks else Sliding(self.place.kept)

    def trainer(
        self,
        selector: Selector | None = None,
        model: nn.Module | None = None,
        optimizer: Optimizer | None = None,
        criterion: Criterion = cross_entropy,
        buffer: Buffer | None = None,
        **settings: Any,
    ) -> Trainer:
        """Make a trainer with what all methods share."""
        model, place = model or self.model(), self.place
        shared: dict[str, Any] = {
            "warm_up": self.warm_up,
            "ema": place.decay,
            "augment": place.augment,
            "execution": place.execution(),
            "predict_first": False,
        }
        return Trainer(
            model,
            optimizer or SGD(model.parameters(), place.rate),
            selector or Naive(),
            self.buffer() if buffer is None else buffer,
            k=place.k,
            criterion=criterion,
            validator=Validator(self.classes),  # else a first pass over all rows counts the classes
            seed=self.seed,
            **shared | settings,
        )
