"""The methods of the board: each set up as its page in docs/methods says, none tuned to a cell.

What all of them share is the `Scene`: data, noise, model, rate of learning, rows a slot. What a
method must be told beyond that stands in `told`, and is told rightly: the board shows a method at
its best there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tamis.buffers import Buffer, Growing, PuriDivER, Sliding
from tamis.data import Samples, Slot
from tamis.losses import (
    GCE,
    MAE,
    SCE,
    Backward,
    Criterion,
    Forward,
    LabelSmoothing,
    NoiseAdaptation,
    Ramp,
    cross_entropy,
    even_confusion,
)
from tamis.model_view import ModelView
from tamis.models import mlp, resnet18, start
from tamis.models.hedge import HedgeLoss, HedgeMLP
from tamis.monitoring import Accuracy
from tamis.noise import CrossValidation, Proportion
from tamis.optim import CAdam
from tamis.selectors import (
    BARE,
    ELR,
    INCV,
    ITLM,
    O2U,
    OGRS,
    PCLOF,
    RHO,
    AdaptiveK,
    Confident,
    MentorNet,
    Mixture,
    Naive,
    Oracle,
    Plausible,
    Selector,
    TopoFilter,
)
from tamis.selectors.o2u import cyclical
from tamis.selectors.plausible.rule import Parts
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
from tamis.training.pairs import CoTeaching, Decoupling, JoCoR

SLOW = 0.1
"""Share of the rate for losses without a lower bound, which run away at the whole one."""
NOISES: dict[str, Callable[[int], Noise]] = {"symmetric": Symmetric, "pair": PairFlip}


class Runner(Protocol):
    """What the board drives: a trainer, or something that behaves like one."""

    def step(self, item: Any = None) -> Slot:
        """Do one slot."""
        ...

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Share of labels that are predicted, by the weights as they are and averaged."""
        ...


@dataclass
class Passes:
    """Counts the rows that pass through models: forward, and those that are to come back."""

    forward: int = 0
    backward: int = 0

    def count(self, _: nn.Module, fed: tuple[Tensor, ...]) -> None:
        """Take a batch down; where gradients are on, it comes back."""
        self.forward += len(fed[0])
        self.backward += len(fed[0]) * torch.is_grad_enabled()


@dataclass(frozen=True)
class Place:
    """Where methods compete: rows, how they arrive, and what is the same for all methods.

    `held` rows arrive, and a quarter of all rows at the least stays out; or all rows arrive, where
    it is None. They do so in the first slot, or over all slots if `once`; the newest `kept` stay,
    or all. If it `drifts_from` another clean ratio, that one and the cell's take turns, twice
    each. `decay` is that of the averaged weights. On a GPU, if there is one and `gpu` asks for
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
        """Say where models and rows are."""
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
        """Let the rows held arrive: at once, or in so many chunks, one a slot."""
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
            place.k,
            criterion=criterion,
            predict_first=False,
            validator=Validator(self.classes),  # else a first pass over all rows counts the classes
            seed=self.seed,
            **shared | settings,
        )


@dataclass(frozen=True)
class Method:
    """A way to train: its name on the board, and how it is set up in a scene.

    `told` is what it had to be told beyond the data. `chunks` is how many slots its rows arrive
    over. `page` is its page in docs/methods.
    """

    name: str
    build: Callable[[Scene], Runner]
    page: str
    told: str = ""
    chunks: int = 1


class Scheduled:
    """A trainer whose rate of learning follows a schedule."""

    def __init__(self, trainer: Trainer, scheduler: LRScheduler) -> None:
        self.trainer = trainer
        self.scheduler = scheduler

    def step(self, item: Any = None) -> Slot:
        """Do one slot, then move the rate."""
        slot = self.trainer.step(item)
        self.scheduler.step()
        return slot

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Ask the trainer."""
        return self.trainer.accuracy(inputs, labels)


class Estimating:
    """Trains naively at first, then estimates the clean ratio once, and trims by it from there."""

    def __init__(self, trainer: Trainer, estimator: Proportion | CrossValidation) -> None:
        self.trainer = trainer
        self.estimator = estimator

    def step(self, item: Any = None) -> Slot:
        """Do one slot."""
        trainer = self.trainer
        if trainer.slots == trainer.warm_up:
            ratio = self.estimator.estimate(
                trainer.buffer.pool(), trainer.averaged, trainer.generator
            )
            trainer.selector = ITLM(min(1.0, max(0.05, ratio)))
        return trainer.step(item)

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Ask the trainer."""
        return self.trainer.accuracy(inputs, labels)


def selecting(make: Callable[[Scene], Selector], **settings: Any) -> Callable[[Scene], Runner]:
    """Set a selector into the trainer that all share."""
    return lambda scene: scene.trainer(make(scene), **settings)


def losing(make: Callable[[Scene], Criterion], share: float = 1.0) -> Callable[[Scene], Runner]:
    """Set a loss into it, at this share of the rate of learning."""

    def build(scene: Scene) -> Runner:
        model = scene.model()
        optimizer = SGD(model.parameters(), share * scene.place.rate)
        return scene.trainer(model=model, optimizer=optimizer, criterion=make(scene))

    return build


def o2u(scene: Scene) -> Runner:
    """Let the rate go up and down, and trim by the mean loss over it."""
    model, rate = scene.model(), scene.place.rate
    optimizer = SGD(model.parameters(), rate)
    trainer = scene.trainer(O2U(keep=scene.clean_ratio), model, optimizer)
    return Scheduled(trainer, cyclical(optimizer, 500, high=rate, low=rate / 10))


def rho_with_holdout(scene: Scene) -> Runner:
    """Train a second model on rows of its own first, as noisy as the others."""
    trainer, holdout = scene.trainer(), scene.model()
    rows = scene.others[:1000]
    generator = Generator().manual_seed(scene.seed)
    noise = NOISES[scene.noise](scene.classes)
    inputs, labels, _ = noise.spoil(
        scene.data.inputs[rows], scene.data.labels[rows], 1 - scene.clean_ratio, generator
    )
    school = Trainer(
        holdout, SGD(holdout.parameters(), scene.place.rate), Naive(), Growing(len(rows)),
        scene.place.k, ema=None,
        predict_first=False, validator=Validator(scene.classes), seed=scene.seed,
    )  # fmt: skip
    school.step((inputs, labels))
    for _ in range(scene.slots // 4):
        school.step()
    trainer.selector = RHO(holdout=ModelView(holdout))
    return trainer


def adapting(scene: Scene) -> Runner:
    """Learn the confusion of labels beside the model, from a start that guesses 0.9."""
    model, layer = scene.model(), NoiseAdaptation(even_confusion(scene.classes, 0.9))
    groups = [{"params": model.parameters()}, {"params": layer.parameters()}]
    return scene.trainer(model=model, optimizer=SGD(groups, scene.place.rate), criterion=layer)


def hedging(scene: Scene) -> Runner:
    """Weigh classifiers at every depth of a deeper network."""

    def make(shape: tuple[int, ...], classes: int) -> nn.Module:
        return HedgeMLP(int(torch.tensor(shape).prod()), classes, hidden=5)

    model = scene.model(make)
    return scene.trainer(model=model, criterion=HedgeLoss(cast(HedgeMLP, model)))


def remembering(scene: Scene) -> Runner:
    """Keep half of the rows, chosen by PuriDivER as they arrive."""
    buffer = PuriDivER(len(scene.held) // 2)
    trainer = scene.trainer(buffer=buffer)
    buffer.view = trainer.averaged
    return trainer


def shifting(make: Callable[[], Selector] = Naive, **settings: Any) -> Callable[[Scene], Runner]:
    """Move images by a pixel for every 14 of their side; a mirrored digit is none."""

    def build(scene: Scene) -> Runner:
        pad = max(1, scene.data.input_shape[-1] // 14)
        return scene.trainer(make(), augment=ShiftAndFlip(pad=pad, flip=False), **settings)

    return build


def decaying(scene: Scene) -> Runner:
    """Train naively with weight decay."""
    model = scene.model()
    optimizer = SGD(model.parameters(), scene.place.rate, weight_decay=1e-3)
    return scene.trainer(model=model, optimizer=optimizer)


def confident_steps(scene: Scene) -> Runner:
    """Train naively with CAdam."""
    model = scene.model()
    return scene.trainer(model=model, optimizer=CAdam(model.parameters(), lr=1e-3))


def paired(
    kind: type[CoTeaching] | type[JoCoR] | type[Decoupling], told: bool = True, **settings: Any
) -> Callable[[Scene], Runner]:
    """Train two models side by side; both but Decoupling are told the noise rate."""

    def build(scene: Scene) -> Runner:
        models = (scene.model(), scene.model())
        optimizers = tuple(SGD(model.parameters(), scene.place.rate) for model in models)
        rate = {"noise_rate": 1 - scene.clean_ratio} if told else {"warm_up": scene.warm_up}
        return kind(
            models, (optimizers[0], optimizers[1]), scene.buffer(), scene.place.k,
            predict_first=False,
            validator=Validator(scene.classes), seed=scene.seed, **rate, **settings,
        )  # fmt: skip

    return build


def without(name: str, **settings: Any) -> Method:
    """Take something from the rule, to see what it is worth."""
    build = selecting(lambda _: Plausible(**settings), warm_up=0)
    return Method(f"Plausible without {name}", build, "plausible")


VARIANTS = (
    without("neighbours", parts=Parts(votes=0)),
    without("beliefs", parts=Parts(beliefs=0)),
    without("alignment", parts=Parts(aligned=False)),
    without("earned trust", parts=Parts(earned=False)),
    without("confusion", parts=Parts(confusion=False)),
    without("reuse", parts=Parts(reuse=False)),
    without("first looks", parts=Parts(first_looks=False)),
    without("mending", mend=False),
    without("caution", caution=0),
    without("curiosity", curiosity=0),
)
"""The board leaves them out; `tamis lab bench --methods` runs them by name."""
RATIO, KNOWN = "clean ratio", "confusion matrix"
METHODS = (
    Method("naive", selecting(lambda _: Naive()), "ogrs"),
    Method("oracle", selecting(lambda _: Oracle()), "ogrs", "every right label"),
    Method("Plausible", selecting(lambda _: Plausible(), warm_up=0), "plausible"),
    Method("OGRS", selecting(lambda _: OGRS()), "ogrs"),
    Method("ITLM", selecting(lambda scene: ITLM(scene.clean_ratio)), "itlm", RATIO),
    Method(
        "ITLM, ratio by proportion",
        lambda scene: Estimating(scene.trainer(), Proportion()),
        "clean_ratio",
    ),
    Method(
        "ITLM, ratio by cross-validation",
        lambda scene: Estimating(scene.trainer(), CrossValidation()),
        "clean_ratio",
    ),
    Method("INCV", selecting(lambda _: INCV()), "incv"),
    Method("O2U", o2u, "o2u", RATIO),
    Method("MentorNet", selecting(lambda s: MentorNet(s.clean_ratio)), "mentornet", RATIO),
    Method("PCLOF", selecting(lambda _: PCLOF()), "open_set"),
    Method("TopoFilter", selecting(lambda _: TopoFilter()), "topofilter"),
    Method("confident learning", selecting(lambda _: Confident()), "confident"),
    Method("mixture of losses", selecting(lambda _: Mixture()), "mixture"),
    Method("BARE", selecting(lambda _: BARE()), "bare"),
    Method("Adaptive-k", selecting(lambda _: AdaptiveK()), "adaptive_k"),
    Method("RHO, average", selecting(lambda _: RHO()), "rho"),
    Method("RHO, holdout", rho_with_holdout, "rho", "1,000 more rows"),
    Method("ELR", selecting(lambda _: ELR()), "elr"),
    Method("Decoupling", paired(Decoupling, told=False), "decoupling"),
    Method("Co-teaching", paired(CoTeaching), "co_teaching", RATIO),
    Method("JoCoR", paired(JoCoR), "jocor", RATIO),
    Method("MAE", losing(lambda _: MAE()), "robust_losses"),
    Method("ramp", losing(lambda _: Ramp()), "robust_losses"),
    Method("GCE", losing(lambda _: GCE()), "robust_losses"),
    Method("SCE", losing(lambda _: SCE()), "robust_losses"),
    Method("label smoothing", losing(lambda _: LabelSmoothing()), "robust_losses"),
    Method("forward, running", losing(lambda _: Forward()), "loss_correction"),
    Method("backward, running", losing(lambda _: Backward(), SLOW), "loss_correction"),
    Method("forward, known", losing(lambda s: Forward(s.confusion())), "loss_correction", KNOWN),
    Method(
        "backward, known", losing(lambda s: Backward(s.confusion()), SLOW), "loss_correction", KNOWN
    ),
    Method("noise adaptation", adapting, "noise_adaptation"),
    Method("mixup", lambda scene: scene.trainer(augment=Mixup()), "mixup"),
    Method("shifted images", shifting(), "mixup"),
    Method("Plausible, shifted images", shifting(Plausible, warm_up=0), "plausible"),
    Method("weight decay", decaying, "robust_losses"),
    Method("CAdam", confident_steps, "cadam"),
    Method("hedge over depths", hedging, "hedge"),
    Method("PuriDivER", remembering, "puridiver", chunks=100),
)  # fmt: skip
