"""What every trainer has: a model, its generator, its counters, a state to save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tamis.buffers import Buffer
from tamis.buffers.store import Store
from tamis.checkpoint import State, describe, get_state, set_state, tree_to_device
from tamis.data import NO_SAMPLES, Samples, concat
from tamis.monitoring import Accuracy
from tamis.monitoring.metrics import count_classes
from tamis.sources import BadInputError, Validator
from tamis.training.divergence import Divergence
from tamis.training.learner import Learner, check_counts
from tamis.training.report import Compared, Outcome, SlotReport

ON_DEVICE = ("average", "window", "second average", "buffer", "report")
"""Parts whose tensors are where the model is."""


class BaseTrainer(ABC):
    """Counts, saves and evaluates; how rows come in, are picked and learned from is a subclass's.

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

    def on_any_rank(self, flag: bool) -> bool:
        """Return whether a flag is set here, or on any rank that trains the same model."""
        return flag

    def accuracy(self, inputs: Any, labels: Any) -> Accuracy:
        """Return the share of labels that the model predicts, and that its average does."""
        return self.learner.accuracy(inputs, labels)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        return self.learner.best_model()

    def settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on and that does not change."""
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
            "counters": {"slots": self.slots},
        }

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors: they may be blank."""
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


def accept(
    validator: Validator, item: Any, learner: Learner, *, predict: bool
) -> tuple[Samples, Tensor | None]:
    """Return the good rows of an item, and, with `predict`, the averaged model's logits."""
    samples = validator.validate(item).to(learner.device)
    inputs = learner.cast(samples.inputs)
    if inputs is not samples.inputs:
        samples = replace(samples, inputs=inputs)
    if not len(samples) or not (predict or validator.classes is None):
        return samples, None
    try:
        logits = learner.averaged.logits(inputs)
    except RuntimeError as error:
        if inputs.is_floating_point() or "type" not in str(error):
            raise
        kind = str(inputs.dtype).removeprefix("torch.")
        raise BadInputError(
            f"Inputs are {kind}, and the model does not take them: pass them as floats."
        ) from error
    if validator.classes is None:  # only now is their number known
        validator.classes = logits.shape[1]
        return validator.check_rows(samples), None
    return samples, logits


def compare(logits: Tensor | None, labels: Tensor) -> Compared | None:
    """Return how predictions compare with the labels that arrived; None where none was made."""
    if logits is None:
        return None
    predicted, classes = logits.argmax(dim=1), logits.shape[1]
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
