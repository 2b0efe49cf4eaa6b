"""What every trainer has: a model, its generator, its counters, a state to save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tamis.buffers import Buffer
from tamis.buffers.store import Store
from tamis.checkpoint import State, describe, get_state, set_state, tree_to_device
from tamis.data import NO_SAMPLES, Samples, concat
from tamis.model_view.growth import count_outputs
from tamis.monitoring import Accuracy
from tamis.monitoring.metrics import count_classes
from tamis.sources import BadInputError, Validator
from tamis.training.divergence import Divergence
from tamis.training.growth import check_parts, grow_parts, mean_level
from tamis.training.learner import Learner, check_counts
from tamis.training.report import Compared, Outcome, SlotReport

ON_DEVICE = ("average", "window", "second average", "buffer", "waiting", "report")
"""Parts whose tensors are where the model is."""


class BaseTrainer(ABC):
    """Counts, saves and evaluates; how rows come in, are picked and learned from is a subclass's.

    `grown` is the number of classes once any have come up, 0 before.

    A step whose loss is not finite, or whose gradient has exploded, is not taken but counted in
    `skipped_steps`; `patience` of them in a row raise `DivergedError`. `state_dict` and
    `load_state_dict`, or `Checkpoints` around them, stop a run and resume it as if unbroken.
    """

    def __init__(
        self,
        learner: Learner,
        k: int,
        *,
        warm_up: int,
        predict_first: bool,
        patience: int,
        seed: int,
    ) -> None:
        if k < 1:
            raise ValueError(f"A slot picks at least 1 row, got k={k}.")
        self.learner = learner
        self.device = learner.device
        self.model, self.optimizer = learner.model, learner.optimizer
        self.average, self.window = learner.average, learner.window
        self.now, self.averaged = learner.now, learner.averaged
        self.k = k
        self.warm_up = warm_up
        self.predict_first = predict_first
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.slots = 0
        self._divergence = Divergence(patience)
        self._report = SlotReport()
        self._nothing = Outcome.none(self.device)
        self._built: dict[str, Any] = {}  # settings from before the first growth
        self.grown = 0

    @property
    def skipped_steps(self) -> int:
        """Steps that were not taken, since the start."""
        return self._divergence.skipped

    @property
    def sound(self) -> bool:
        """Whether the last step was taken. A run that may be diverging is not to be saved."""
        self._divergence.settle()
        return self._divergence.in_a_row == 0

    @property
    def held_count(self) -> int:
        """Number of rows held in this process."""
        return sum(map(len, self._buffers()))

    def held(self) -> Samples:
        """Return the rows held in this process; they are copied only where buffers are several."""
        pools = [buffer.pool() for buffer in self._buffers() if len(buffer)]
        if len(pools) > 1:
            return concat(pools)
        return pools[0] if pools else NO_SAMPLES

    def held_parts(self) -> Iterator[Samples]:
        """Yield all rows held in this process."""
        yield self.held()

    @property
    def kept_count(self) -> int:
        """Number of rows held in this process, and of those that wait for their labels."""
        return self.held_count

    def kept_ids(self) -> list[int]:
        """Return the ids of the rows held in this process, and of those that wait."""
        return self.held().ids.tolist()

    def on_any_rank(self, flag: bool) -> bool:
        """Return whether a flag is set here, or on any rank that trains the same model."""
        return flag

    def accuracy(self, inputs: Any, labels: Any) -> Accuracy:
        """Return the share of labels that the model predicts, and that its average does."""
        return self.learner.accuracy(inputs, labels)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        return self.learner.best_model()

    def grow(self, classes: int) -> None:
        """Add classes, up to so many in all; what was learned stays.

        Model, average, window, optimiser, criterion, selector and tracker follow. New classes have
        a small probability at first, and those known before share the rest as they did. Raises a
        `GrowthError` where a part was built for a fixed number of classes, before any has grown.
        """
        if classes > self._count_classes():
            self.check_growth()
            self._grow(classes, self._level())

    def check_growth(self) -> None:
        """Refuse parts that were built for a fixed number of classes, in one sentence."""
        for learner in self._learners():
            learner.check_growth()
        check_parts(self._growing())

    def settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on and that does not change.

        Classes that came up are none of it: a run that has grown is resumed as it was built.
        """
        return self._settings() | self._built

    def _settings(self) -> dict[str, Any]:
        rule = type(self.optimizer).__name__
        return {
            "trainer": type(self).__name__,
            "model": describe(self.model),
            "criterion": describe(self.learner.criterion),
            "optimizer": f"{rule} {describe(self.optimizer.defaults)}",
            "window": self.window.length if self.window else "average",
            "ema": self.average and self.average.decay,
            "k": self.k,
            "warm_up": self.warm_up,
            "predict_first": self.predict_first,
            "patience": self._divergence.patience,
            "seed": self.seed,
        }

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes.

        What a model, a selector or a loss of your own remembers from slot to slot is in it if it
        has `state_dict` and `load_state_dict`, or is a module of torch.
        """
        generators = {"trainer": self.generator.get_state(), "torch": torch.get_rng_state()}
        if self.device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            **{name: get_state(part) for name, part in self._parts().items()},
            "generators": generators,  # dropout draws from torch's own
            "counters": {"slots": self.slots} | ({"classes": self.grown} if self.grown else {}),
        }

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors: they may be blank.

        The trainer first grows by the classes that came up before the state was saved.
        """
        grown = state["counters"].get("classes", 0)
        if self.grown > grown:
            raise ValueError(f"the trainer has grown to {self.grown} classes since: build it again")
        if grown:
            self.check_growth()
            self._grow(grown, 0.0)
        self.learner.check(state)
        counts = (state["counters"], state["divergence"], state["report"]["counts"])
        check_counts([count for part in counts for count in part.values()])

    def load_state_dict(self, state: State) -> None:
        """Restore a state: every slot from here on is what it would have been."""
        self.check(state)
        for name, part in self._parts().items():
            own = state[name]
            set_state(name, part, tree_to_device(own, self.device) if name in ON_DEVICE else own)
        generators = state["generators"]
        self.generator.set_state(generators["trainer"])
        torch.set_rng_state(generators["torch"])
        if self.device.type == "cuda" and "cuda" in generators:
            torch.cuda.set_rng_state(generators["cuda"], self.device)
        self.slots = state["counters"]["slots"]
        self.forget_graphs()

    def forget_graphs(self) -> None:
        """Record graphs again when next used: tensors have moved."""
        self.learner.forget_graphs()

    @abstractmethod
    def _count_classes(self) -> int:
        """Return the number of classes."""

    def _learners(self) -> tuple[Learner, ...]:
        return (self.learner,)

    def _growing(self) -> list[object]:
        """Return the parts that may count by class, but for models and optimisers."""
        own = [part for learner in self._learners() for part in learner.parts().values()]
        return [part for part in self._parts().values() if not any(part is one for one in own)]

    def _level(self) -> float | None:
        """Return the level of logits over some of the rows held; None where no row is."""
        return mean_level(self.averaged, self.held())

    def _grow(self, classes: int, level: float | None) -> None:
        self._built, self.grown = self._built or self._settings(), classes
        for learner in self._learners():
            learner.grow(classes, level)
        grow_parts(self._growing(), classes)
        self.forget_graphs()

    @abstractmethod
    def _buffers(self) -> list[Buffer]:
        """Return the buffers of this process."""

    @abstractmethod
    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed."""

    @abstractmethod
    def remove(self, ids: Tensor) -> int:
        """Remove rows held; return how many."""

    def _parts(self) -> dict[str, object]:
        """Return all that changes, by name."""
        own = {"divergence": self._divergence, "report": self._report}
        return self.learner.parts() | {"criterion": self.learner.criterion} | own


class ValidatedTrainer(BaseTrainer):
    """A trainer with one validator, which may let new classes in."""

    validator: Validator

    def _count_classes(self) -> int:
        return self.validator.classes or count_outputs(self.model)

    def _grow_for(self, labels: Tensor) -> None:
        """Grow by the classes of these labels, where the set of classes is open."""
        if self.validator.numbers.open and len(labels):
            self.grow(1 + int(labels.max()))


def accept(
    validator: Validator,
    item: Any,
    learner: Learner,
    *,
    predict: bool,
    grow: Callable[[Tensor], None],
) -> tuple[Samples, Tensor | None]:
    """Return the good rows of an item, and, with `predict`, the averaged model's logits.

    `grow` is called with their labels before any other part sees them.
    """
    samples = validator.validate(item)
    grow(samples.labels)
    samples = on_device(samples, learner)
    if not len(samples) or not (predict or validator.classes is None):
        return samples, None
    logits = predict_arriving(samples.inputs, learner)
    if validator.classes is None:  # only now is their number known
        validator.classes = logits.shape[1]
        return validator.check_rows(samples), None
    return samples, logits


def on_device(samples: Samples, learner: Learner) -> Samples:
    """Return rows as the model takes them."""
    samples = samples.to(learner.device)
    inputs = learner.cast(samples.inputs)
    return samples if inputs is samples.inputs else replace(samples, inputs=inputs)


def predict_arriving(inputs: Tensor, learner: Learner) -> Tensor:
    """Return the averaged model's logits of rows that it has not been trained on."""
    try:
        return learner.averaged.logits(inputs)
    except RuntimeError as error:
        if inputs.is_floating_point() or "type" not in str(error):
            raise
        kind = str(inputs.dtype).removeprefix("torch.")
        raise BadInputError(
            f"Inputs are {kind}, and the model does not take them: pass them as floats."
        ) from error


def compare(logits: Tensor | None, labels: Tensor) -> Compared | None:
    """Return how predictions compare with the labels that arrived; None where none was made."""
    if logits is None:
        return None
    return compare_classes(logits.argmax(dim=1), labels, logits.shape[1])


def compare_classes(predicted: Tensor, labels: Tensor, classes: int) -> Compared:
    """Return how the classes that were predicted compare with the labels that arrived."""
    return Compared(
        (predicted == labels).float().mean(),
        count_classes(labels, classes),
        count_classes(predicted, classes),
    )


def check_buffer(buffer: object, state: Any) -> None:
    """Refuse a state that does not fit a buffer."""
    if isinstance(buffer, Store):
        buffer.check(state)


def check_saved(buffer: object) -> None:
    """Refuse a buffer that cannot be saved."""
    if get_state(buffer) is None:
        raise TypeError(
            f"{describe(buffer)} has no `state_dict` and `load_state_dict`, so it cannot be saved."
        )


def check_labels(labels: Tensor, classes: int | None) -> None:
    """Refuse labels that are no class."""
    most = torch.inf if classes is None else classes
    if ((labels < 0) | (labels >= most)).any():
        raise ValueError(f"Labels are at least 0 and below {most}, got {labels.tolist()}.")
