"""A trainer of two models: what all methods of this package share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.checkpoint import State, describe
from tamis.data import Picks, Samples, Slot
from tamis.losses import Criterion, cross_entropy
from tamis.selectors import Naive
from tamis.sources import Validator
from tamis.training.augment import Augment
from tamis.training.base import (
    ValidatedTrainer,
    accept,
    check_buffer,
    check_labels,
    check_saved,
    compare,
)
from tamis.training.execution import Execution
from tamis.training.learner import Learner
from tamis.training.report import Arrivals, Compared, Outcome

OWN = ("model", "optimizer", "average")
"""What the second model remembers for itself."""


class Settings(TypedDict, total=False):
    """Settings that all methods of two models share; `TwoModels` describes them."""

    warm_up: int
    ema: float | None
    predict_first: bool
    augment: Augment | None
    criterion: Criterion
    validator: Validator | None
    device: str | torch.device
    patience: int
    seed: int


class TwoModels(ValidatedTrainer):
    """Trains two models on one stream, through one validator and one buffer.

    Every slot draws `batch` rows at random. A method returns the rows that each model learns from
    (`_choose`), before either of the two is updated (`_train`).

    A slot reports the rows that one model or both learned from: each is one pick and one use. Its
    loss is the mean of the two. `model`, `average`, `accuracy` and `best_model` are those of the
    first model. Both play the same part, so it stands for either; which of them is the better one
    takes right labels to know. `second` has the model, the average, `accuracy` and `best_model`
    of the other.

    Parameters
    ----------
    models, optimizers: one of each for either model; the models must differ.
    buffer: the rows held.
    k: picks a slot.
    batch: rows drawn a slot.
    warm_up: first slots of the method's warm-up, if it has one.
    ema: decay of the running averages of the weights; None keeps none.
    predict_first: predict arriving labels before they are learned from.
    augment: changes picked inputs and targets before each step.
    criterion: loss of each row.
    validator: checks arriving rows.
    device: where the models and the buffer are.
    patience: steps not taken, in a row, before `DivergedError`.
    seed: of the trainer's own generator.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int,
        batch: int,
        *,
        warm_up: int = 0,
        ema: float | None = 0.99,
        predict_first: bool = True,
        augment: Augment | None = None,
        criterion: Criterion = cross_entropy,
        validator: Validator | None = None,
        device: str | torch.device = "cpu",
        patience: int = 10,
        seed: int = 0,
    ) -> None:
        if batch < 1:
            raise ValueError(f"A slot draws at least 1 row, got batch={batch}.")
        first, self.second = (
            Learner(model, optimizer, criterion, Execution(device), ema=ema)
            for model, optimizer in zip(models, optimizers, strict=True)
        )
        super().__init__(
            first, k, warm_up=warm_up, predict_first=predict_first, patience=patience, seed=seed
        )
        self.buffer = buffer
        self.batch = batch
        self.augment = augment
        self.validator = validator or Validator()
        if identical(*models):
            raise ValueError(
                "Two models that start identical stay identical: start them from two seeds."
            )

    @property
    def both(self) -> tuple[Learner, Learner]:
        """The first and the second model."""
        return self.learner, self.second

    def run(self, stream: Iterable[Any]) -> Iterator[Slot]:
        """Do a slot for every item of the stream: `Samples`, or pairs of inputs and labels."""
        for item in stream:
            yield self.step(item)

    def step(self, item: Any = None) -> Slot:
        """Do one slot: take in what has arrived, if anything, then train both models."""
        started = perf_counter()
        compared = None if item is None else self._take_in(item)
        held = self.held()
        outcome, seconds = self._draw_and_learn(held) if len(held) else (self._nothing, 0.0)
        self.slots += 1
        checked, classes = self.validator, self.validator.classes or 0
        arrivals = Arrivals(checked.seen, checked.rejects.total, classes, compared)
        return self._report.slot(
            self.slots, held, outcome, arrivals,
            warm_up=self.warm_up, select_seconds=seconds, started=started,
        )  # fmt: skip

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed."""
        check_labels(labels, self.validator.limit)
        self._grow_for(labels)
        return self.buffer.relabel(ids, labels)

    def remove(self, ids: Tensor) -> int:
        """Remove rows held; return how many. Ids that are not held are ignored."""
        return self.buffer.remove(ids)

    def _learners(self) -> tuple[Learner, ...]:
        return self.both

    def _settings(self) -> dict[str, Any]:
        rule = type(self.second.optimizer).__name__
        return super()._settings() | {
            "buffer": describe(self.buffer),
            "augment": describe(self.augment),
            "on_bad": self.validator.on_bad,
            "batch": self.batch,
            **{name: describe(getattr(self, name, None)) for name in ("keep", "strength")},
            "second model": describe(self.second.model),
            "second optimizer": f"{rule} {describe(self.second.optimizer.defaults)}",
        }

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes; see `BaseTrainer`."""
        check_saved(self.buffer)
        return super().state_dict()

    def check(self, state: State) -> None:
        """Refuse a state that does not fit one of the models, or the buffer."""
        super().check(state)
        check_buffer(self.buffer, state["buffer"])
        self.second.check(state | {name: state[f"second {name}"] for name in OWN})

    def _buffers(self) -> list[Buffer]:
        return [self.buffer]

    def _parts(self) -> dict[str, object]:
        second = self.second.parts()
        return super()._parts() | {
            "buffer": self.buffer,
            "augment": self.augment,
            "validator": self.validator,
            **{f"second {name}": second[name] for name in OWN},
        }

    @abstractmethod
    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        """Return the rows of the batch that each model learns from; change nothing."""

    def _train(self, batch: Samples, picks: tuple[Picks, Picks]) -> Tensor:
        """Update each model on its own rows; return the mean of the two losses."""
        losses = [
            one.take_step(*self._augmented(batch, own), own.weights)
            for one, own in zip(self.both, picks, strict=True)
        ]
        return torch.stack(losses).mean()

    def _augmented(self, batch: Samples, picks: Picks) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the picks as an optimiser's step sees them."""
        inputs, labels = batch.inputs[picks.rows], batch.labels[picks.rows]
        if self.augment is None:
            return inputs, labels
        return self.augment(inputs, labels, self.validator.classes or 0, self.generator)

    def _take_in(self, item: Any) -> Compared | None:
        """Hold the good rows, and return how their labels compare with predictions."""
        samples, logits = accept(
            self.validator, item, self.learner, predict=self.predict_first, grow=self._grow_for
        )
        if len(samples):
            self.buffer.append(samples, self.generator)
        return compare(logits, samples.labels)

    def _draw_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Draw a batch and train both models; return also the seconds for choosing."""
        started = perf_counter()
        count = min(self.batch, len(held))
        drawn = Naive().select(held, self.learner.view, count, self.generator).rows
        batch = held[drawn]
        picks = self._choose(batch)
        either = Picks.only(drawn, marked(len(batch), picks))
        chosen = perf_counter()
        if not len(either):
            return self._nothing, chosen - started
        loss = self._train(batch, picks)
        self.buffer.use(either.rows, either.weights)
        outcome = Outcome.of(held, either, loss, self.validator.classes or 0, self._nothing)
        self._divergence.update(self.slots, outcome.loss)
        for one in self.both:
            one.remember()
        return outcome, chosen - started


def identical(first: nn.Module, second: nn.Module) -> bool:
    """Return whether two models have the same weights."""
    ours, theirs = (list(model.parameters()) for model in (first, second))
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def marked(count: int, picks: tuple[Picks, Picks]) -> Tensor:
    """Return a mask over so many rows of those that are picked by one model or both."""
    marks = torch.zeros(count, dtype=torch.bool, device=picks[0].rows.device)
    for own in picks:
        marks[own.rows] |= True if own.weights is None else own.weights > 0
    return marks


def smallest(losses: Tensor, count: int) -> Tensor:
    """Return so many rows of smallest loss. Torch ranks NaN last."""
    return losses.topk(count, largest=False).indices
