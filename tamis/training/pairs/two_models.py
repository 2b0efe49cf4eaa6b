"""A trainer of two models: what all methods of this package share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.checkpoint import State, describe
from tamis.data import Picks, Samples
from tamis.losses import Criterion
from tamis.selectors import Naive
from tamis.sources import Validator
from tamis.training.augment import Augment
from tamis.training.execution import Execution
from tamis.training.trainer import Outcome, Trainer

OWN = ("model", "optimizer", "average")
"""What the second model remembers for itself."""
SHARED = ("ema", "criterion")
"""Settings that the second model needs as well; all else happens once a slot."""


class Settings(TypedDict, total=False):
    """Those settings of `Trainer` that two models heed."""

    warm_up: int
    ema: float | None
    predict_first: bool
    augment: Augment | None
    criterion: Criterion
    validator: Validator | None
    patience: int
    seed: int


class TwoModels(Trainer, ABC):
    """Trains two models on one stream, through one validator and one buffer.

    Every slot draws `batch` rows at random. A method says which of them each model learns from
    (`_choose`), before either of the two is updated (`_train`).

    A slot tells of the rows that one model or both learned from: each is one pick and one use. Its
    loss is the mean of the two. `model`, `average`, `accuracy` and `best_model` are those of the
    first model. Both play the same part, so it stands for either; which of them is the better one
    takes right labels to know. The second is `second`, a trainer as well, which is never stepped:
    `second.accuracy` and `second.best_model` are there for whoever wants both.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int,
        batch: int,
        *,
        device: str | torch.device = "cpu",
        **settings: Unpack[Settings],
    ) -> None:
        unheeded = settings.keys() - Settings.__annotations__.keys()
        if unheeded:
            raise TypeError(f"Two models do not heed {', '.join(sorted(unheeded))}.")
        if batch < 1:
            raise ValueError(f"A slot draws at least 1 row, got batch={batch}.")
        super().__init__(
            models[0], optimizers[0], Naive(), buffer, k, execution=Execution(device), **settings
        )
        shared: dict[str, Any] = {name: value for name, value in settings.items() if name in SHARED}
        self.second = Trainer(
            models[1],
            optimizers[1],
            Naive(),
            buffer,
            k,
            validator=self.validator,
            execution=self.execution,
            **shared,
        )
        self.batch = batch
        if alike(*models):
            raise ValueError("Two models that start alike stay alike: start them from two seeds.")

    @property
    def both(self) -> tuple[Trainer, Trainer]:
        """Return the first and the second."""
        return self, self.second

    def settings(self) -> dict[str, Any]:
        """Say all that the numbers depend on: both models, the batch, what a method adds."""
        added = {name: describe(getattr(self, name, None)) for name in ("keep", "strength")}
        rule = type(self.second.optimizer).__name__
        return super().settings() | {
            "batch": self.batch,
            **added,
            "second model": describe(self.second.model),
            "second optimizer": f"{rule} {describe(self.second.optimizer.defaults)}",
        }

    def check(self, state: State) -> None:
        """Refuse a state that fits one model or the other not."""
        super().check(state)
        second = {name: state[f"second {name}"] for name in OWN}
        self.second.check({**state, **second})

    def _parts(self) -> dict[str, object]:
        second = self.second._parts()
        return super()._parts() | {f"second {name}": second[name] for name in OWN}

    @abstractmethod
    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        """Say which rows of the batch each model learns from; change nothing."""

    def _train(self, batch: Samples, picks: tuple[Picks, Picks]) -> Tensor:
        """Update each model on its own rows; return the mean of the two losses."""
        losses = [
            one._take_step(*self._show(batch, own), own.weights)
            for one, own in zip(self.both, picks, strict=True)
        ]
        return torch.stack(losses).mean()

    def _show(self, batch: Samples, picks: Picks) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the picks as an optimiser's step is to see them."""
        inputs, labels = batch.inputs[picks.rows], batch.labels[picks.rows]
        if self.augment is None:
            return inputs, labels
        return self.augment(inputs, labels, self.validator.classes or 0, self.generator)

    def _pick_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Draw a batch and let both models learn; return also the seconds that choosing took."""
        started = perf_counter()
        count = min(self.batch, len(held))
        drawn = self.selector.select(held, self.view, count, self.generator).rows
        batch = held[drawn]
        picks = self._choose(batch)
        either = Picks.only(drawn, marked(len(batch), picks))
        chosen = perf_counter()
        if not len(either):
            return self._nothing, chosen - started
        outcome = self._report(held, either, self._train(batch, picks))
        self._watch(outcome.loss)
        for one in self.both:
            if one.average:
                one.average.update(one.model)
        return outcome, chosen - started


def alike(first: nn.Module, second: nn.Module) -> bool:
    """Say whether two models have the same weights."""
    ours, theirs = (list(model.parameters()) for model in (first, second))
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def marked(count: int, picks: tuple[Picks, Picks]) -> Tensor:
    """Mark those of so many rows that are picked by one or both."""
    marks = torch.zeros(count, dtype=torch.bool, device=picks[0].rows.device)
    for own in picks:
        marks[own.rows] |= True if own.weights is None else own.weights > 0
    return marks


def smallest(losses: Tensor, count: int) -> Tensor:
    """Return so many rows of smallest loss. Torch ranks what is not a number last."""
    return losses.topk(count, largest=False).indices
