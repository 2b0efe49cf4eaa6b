"""Where methods are compared: data, how rows arrive, and what all methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Optimizer

from tamis.buffers import Buffer, Growing, Sliding
from tamis.data import Samples
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
    Constant,
    DataSet,
    Noise,
    PairFlip,
    Replay,
    Steps,
    Symmetric,
    cifar10,
    digits,
    fashion_mnist,
    gaussians,
    mnist,
)
from tamis.training import Augment, Execution, Trainer
from tamis.training.augment import Mixup, ShiftAndFlip

NOISES: dict[str, Callable[[int], Noise]] = {"symmetric": Symmetric, "pair": PairFlip}


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
    each. `decay` is that of the averaged weights. On a GPU, if there is one and `gpu` wants
    it, passes run in `precision` and as CUDA graphs, which nothing can count.
    """

    load: Callable[[Path | None], DataSet]
    slots: int = 1500
    held: int | None = 5000
    once: bool = False
    kept: int | None = None
    drifts_from: float | None = None
    k: int = 32
    warm_up: int = 500
    model: Callable[[tuple[int, ...], int], nn.Module] = mlp
    rate: float = 0.1
    decay: float = 0.99
    augment: Augment | None = None
    gpu: bool = False
    precision: torch.dtype | None = None

    @property
    def device(self) -> str:
        """Device of models and rows."""
        return "cuda" if self.gpu and torch.cuda.is_available() else "cpu"

    def execution(self) -> Execution:
        """Return how trainers execute here."""
        if self.device == "cpu":
            return Execution()
        return Execution(self.device, self.precision, graphed=True)


PLACES = {
    "digits": Place(digits, slots=300),
    "mnist": Place(mnist),
    "fashion_mnist": Place(fashion_mnist),
    "cifar10": Place(cifar10),
    "gaussians": Place(gaussians, slots=300),
    "mnist-once": Place(mnist, slots=10_000, held=None, once=True, k=10),
    "mnist-drift": Place(
        mnist, slots=3000, held=30_000, once=True, kept=2000, drifts_from=0.9, k=16
    ),
    "mnist-mixup": Place(mnist, slots=5000, augment=Mixup(1.0)),
    "cifar10-resnet": Place(
        cifar10, slots=8000, held=None, k=64, model=resnet18, rate=0.05, decay=0.995,
        augment=ShiftAndFlip(), gpu=True, precision=torch.bfloat16,
    ),
}  # fmt: skip


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
        held = most if held is None else min(held, most * 3 // 4)
        self.held, self.others = order[:held], order[held:]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.data.classes)

    @property
    def warm_up(self) -> int:
        """Slots that are naive before a selector takes over."""
        return min(self.place.warm_up, self.slots // 4)

    def stream(self, chunks: int = 1) -> Iterator[Samples]:
        """Yield the rows held: at once, or in so many chunks, one a slot."""
        if self.place.once:
            chunks = self.slots
        before, after = self.place.drifts_from, self.clean_ratio
        return iter(
            Replay(
                self.data.inputs[self.held],
                self.data.labels[self.held],
                NOISES[self.noise](self.classes),
                Constant(after) if before is None else Steps((before, after, before, after)),
                slots=chunks,
                rows_per_slot=-(-len(self.held) // chunks),
                seed=self.seed,
            )
        )

    def confusion(self) -> Tensor:
        """Return the true confusion of labels, true class by given class."""
        if self.noise == "symmetric":
            return even_confusion(self.classes, self.clean_ratio)
        right = torch.eye(self.classes)
        return self.clean_ratio * right + (1 - self.clean_ratio) * right.roll(1, dims=1)

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
        """Make a buffer for all rows, or for the newest."""
        return Sliding(self.place.kept) if self.place.kept else Growing(len(self.held))

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
        }
        return Trainer(
            model,
            optimizer or SGD(model.parameters(), place.rate),
            selector or Naive(),
            self.buffer() if buffer is None else buffer,
            k=place.k,
            criterion=criterion,
            predict_first=False,
            validator=Validator(self.classes),  # else a first pass over all rows counts the classes
            seed=self.seed,
            **shared | settings,
        )
