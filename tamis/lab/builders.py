"""How the methods of the board are built in a scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LRScheduler

from tamis.buffers import Growing, PuriDivER
from tamis.data import Slot
from tamis.lab.scene import Scene
from tamis.losses import (
    ILL,
    Criterion,
    NoiseAdaptation,
    even_confusion,
)
from tamis.model_view import ModelView
from tamis.models.hedge import HedgeLoss, HedgeMLP
from tamis.monitoring import Accuracy
from tamis.noise import CrossValidation, Proportion
from tamis.optim import CAdam
from tamis.selectors import (
    DISC,
    ITLM,
    O2U,
    RHO,
    FixMatch,
    Naive,
    Plausible,
    Selector,
)
from tamis.selectors.fixmatch import Strong
from tamis.selectors.o2u import cyclical
from tamis.sources import Validator
from tamis.training import Trainer
from tamis.training.augment import Augment, Both, Mixup, ShiftAndFlip, TwoViews
from tamis.training.pairs import CoTeaching, Decoupling, DivideMix, JoCoR


class Runner(Protocol):
    """What the board drives: a trainer, or something that behaves like one."""

    def step(self, item: Any = None) -> Slot:
        """Do one slot."""
        ...

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Share of labels that are predicted, by the weights as they are and averaged."""
        ...


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
        """Return the trainer's accuracy."""
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
        """Return the trainer's accuracy."""
        return self.trainer.accuracy(inputs, labels)


class Auditing:
    """Trains as a trainer does; once, people check the labels of rows drawn at random.

    The ledger answers for them. Wrong labels stay as they are: what it is worth to correct 100
    labels is not the question here.
    """

    def __init__(self, trainer: Trainer, at: int, seed: int, rows: int = 100) -> None:
        self.trainer, self.at, self.rows = trainer, at, rows
        # One of its own: else all picks after it would differ, or it would draw as the noise did.
        self.generator = Generator().manual_seed(seed + 100_000)

    def step(self, item: Any = None) -> Slot:
        """Do one slot, and the audit after the slot in which it is due."""
        slot = self.trainer.step(item)
        if self.trainer.slots == self.at:
            held = self.trainer.held()
            drawn = torch.randperm(len(held), generator=self.generator)[: self.rows]
            sample = held[drawn]
            if sample.clean is not None:
                self.trainer.audit(sample.ids, sample.clean.to(torch.int8))
        return slot

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Return the trainer's accuracy."""
        return self.trainer.accuracy(inputs, labels)


def auditing(scene: Scene) -> Runner:
    """Pick by Plausible, with 100 labels checked after a quarter of the slots."""
    trainer = scene.trainer(Plausible(), warm_up=0)
    return Auditing(trainer, max(1, scene.slots // 4), scene.seed)


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
    """Train at a cyclical rate, and trim by the mean loss over a cycle."""
    model, rate = scene.model(), scene.place.rate
    optimizer = SGD(model.parameters(), rate)
    trainer = scene.trainer(O2U(keep=scene.clean_ratio), model, optimizer)
    return Scheduled(trainer, cyclical(optimizer, 500, high=rate, low=rate / 10))


def rho_with_holdout(scene: Scene) -> Runner:
    """Train a second model on rows of its own first, as noisy as the others."""
    trainer, holdout = scene.trainer(), scene.model()
    rows = scene.others[:1000]
    generator = Generator().manual_seed(scene.seed)
    inputs, labels, _ = scene.label_noise.corrupt(
        scene.data.inputs[rows], scene.data.labels[rows], 1 - scene.clean_ratio, generator
    )
    school = Trainer(
        holdout, SGD(holdout.parameters(), scene.place.rate), Naive(), Growing(len(rows)),
        k=scene.place.k, ema=None,
        predict_first=False, validator=Validator(scene.classes), seed=scene.seed,
    )  # fmt: skip
    school.step((inputs, labels))
    for _ in range(scene.slots // 4):
        school.step()
    trainer.selector = RHO(holdout=ModelView(holdout))
    return trainer


def adapting(scene: Scene) -> Runner:
    """Learn the confusion of labels beside the model, starting from a clean ratio of 0.9."""
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
    """Keep half of the rows, chosen by PuriDivER as they arrive; of tasks, as many as others."""
    kept = scene.place.kept if scene.place.tasks else None
    buffer = PuriDivER(kept or len(scene.held) // 2)
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
    kind: type[CoTeaching] | type[JoCoR] | type[Decoupling] | type[DivideMix],
    knows_ratio: bool = True,
    **settings: Any,
) -> Callable[[Scene], Runner]:
    """Train two models side by side, which may need the noise rate."""

    def build(scene: Scene) -> Runner:
        models = (scene.model(), scene.model())
        optimizers = tuple(SGD(model.parameters(), scene.place.rate) for model in models)
        rate = {"noise_rate": 1 - scene.clean_ratio} if knows_ratio else {"warm_up": scene.warm_up}
        return kind(
            models, (optimizers[0], optimizers[1]), scene.buffer(), scene.place.k,
            predict_first=False,
            validator=Validator(scene.classes), seed=scene.seed, **rate, **settings,
        )  # fmt: skip

    return build


def strong_view(scene: Scene) -> Augment | None:
    """Return a move of images by a pixel for every 7 of their side; None where there are none."""
    if len(scene.data.input_shape) < 2:
        return None
    return ShiftAndFlip(pad=max(1, scene.data.input_shape[-1] // 7), flip=False)


def mixing(make: Callable[[Scene], Selector], strength: float) -> Callable[[Scene], Runner]:
    """Set a selector into the trainer, and mix its picks after what the place does to them."""

    def build(scene: Scene) -> Runner:
        mixup, first = Mixup(strength), scene.place.augment
        return scene.trainer(make(scene), augment=Both(first, mixup) if first else mixup)

    return build


def viewing(make: Callable[[], FixMatch]) -> Callable[[Scene], Runner]:
    """Set FixMatch into the trainer, with strong views of the rows whose labels it guesses."""

    def build(scene: Scene) -> Runner:
        selector, strong = make(), strong_view(scene)
        first, changed = scene.place.augment, Strong(selector, strong) if strong else None
        return scene.trainer(
            selector, augment=Both(first, changed) if first and changed else first or changed
        )

    return build


def disc(scene: Scene) -> Runner:
    """Judge two views of each row, and mix those that pass."""
    return mixing(lambda scene: DISC(strong=strong_view(scene)), 5.0)(scene)


def imprecise(scene: Scene) -> Runner:
    """Learn the confusion of labels beside the model, over two views of each row."""
    model, layer = scene.model(), ILL(even_confusion(scene.classes, 0.9), views=2)
    groups = [{"params": model.parameters()}, {"params": layer.parameters()}]
    return scene.trainer(
        model=model, optimizer=SGD(groups, scene.place.rate), criterion=layer,
        augment=TwoViews(strong_view(scene), scene.place.augment),
    )  # fmt: skip


def dividing(scene: Scene) -> Runner:
    """Train two models that divide rows for each other, after naive slots."""
    return paired(DivideMix, knows_ratio=False, augment=scene.place.augment)(scene)
