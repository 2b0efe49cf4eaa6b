"""Take in, pick, learn, remember, report."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.data import Picks, Samples, Slot
from tamis.local import Average, LocalModel, Window
from tamis.losses import Criterion, cross_entropy
from tamis.monitor import Accuracy, judge
from tamis.selectors import Naive, Selector
from tamis.streams import Intake

NOTHING = Picks(torch.empty(0, dtype=torch.long))
NO_SAMPLES = Samples.of(torch.empty(0, 1), torch.empty(0, dtype=torch.long))


class Diverged(ArithmeticError):
    """Training has run away; the model is left as it was before the step that would spoil it."""


class Trainer:
    """Trains a model on a stream, one slot after another.

    In the paper's letters: k is K, window is w. The first `warm_up` slots pick at random. `ema` is
    the decay of a running average of the weights, evaluated beside the model; None keeps none.
    Selectors look through the last `window` states, or, where it is None, through that average.
    `pool_size` bounds the rows that a selector is shown to a random draw from the buffer, so that
    the cost of a slot does not grow with it; None shows all. `predict_first` predicts arriving
    labels before anything is learned from them, which costs a forward pass.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        selector: Selector,
        buffer: Buffer,
        k: int = 32,
        *,
        warm_up: int = 0,
        window: int | None = 1,
        ema: float | None = 0.99,
        pool_size: int | None = None,
        predict_first: bool = True,
        criterion: Criterion = cross_entropy,
        intake: Intake | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        if k < 1:
            raise ValueError(f"A slot picks at least 1 row, got k={k}.")
        if window is None and ema is None:
            raise ValueError("Selectors look through a window or the average: set one of them.")
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = optimizer
        self.selector = selector
        self.buffer = buffer
        self.k = k
        self.warm_up = warm_up
        self.criterion = criterion
        self.pool_size = pool_size
        self.predict_first = predict_first
        self.intake = intake or Intake()
        self.generator = torch.Generator().manual_seed(seed)
        self.average = None if ema is None else Average(ema)
        self.window = None if window is None else Window(window)
        self.now = LocalModel(model, None, criterion)
        self.averaged = LocalModel(model, self.average, criterion)
        self.local = self.averaged if window is None else LocalModel(model, self.window, criterion)
        self.slots = 0

    def run(self, stream: Iterable[Any]) -> Iterator[Slot]:
        """Do a slot for every item of the stream: `Samples`, or pairs of inputs and labels."""
        for item in stream:
            yield self.step(item)

    def step(self, item: Any = None) -> Slot:
        """Do one slot: take in what has come, if anything, then train on k picks."""
        started = perf_counter()
        agreement = None if item is None else self._take_in(item)
        picks, loss = NOTHING, None
        select_seconds = 0.0
        if len(self.buffer):
            selecting = perf_counter()
            picks = self._pick()
            select_seconds = perf_counter() - selecting
            loss = self._learn(picks)
        warm_up = self.slots < self.warm_up
        held = self.buffer.pool() if len(self.buffer) else NO_SAMPLES
        judged = judge(held, picks.rows)
        self.slots += 1
        return Slot(
            number=self.slots - 1,
            warm_up=warm_up,
            seen=self.intake.seen,
            held=len(held),
            skipped=self.intake.skipped.total(),
            ids=held.ids[picks.rows],
            loss=loss,
            agreement=agreement,
            purity=judged.purity,
            recall=judged.recall,
            coverage=judged.coverage,
            class_picks=self._per_class(held.labels[picks.rows]),
            class_held=self._per_class(held.labels),
            stayed=picks.search.stayed if picks.search else None,
            price=picks.search.price if picks.search else None,
            select_seconds=select_seconds,
            seconds=perf_counter() - started,
        )

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Share of labels that the model predicts, and that its average does."""
        labels = labels.to(self.device)

        def share(local: LocalModel) -> float:
            predicted = local.logits(inputs.to(self.device)).argmax(dim=1)
            return (predicted == labels).float().mean().item()

        return Accuracy(share(self.now), share(self.averaged) if self.average else None)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        model = copy.deepcopy(self.model)
        if self.average:
            model.load_state_dict(self.average.states(model)[0], strict=False)
        return model.eval()

    def _take_in(self, item: Any) -> float | None:
        """Let the good rows in, having predicted their labels first."""
        samples = self.intake.admit(item).to(self.device)
        predicted = None
        if len(samples) and (self.predict_first or self.intake.classes is None):
            logits = self.averaged.logits(samples.inputs)
            if self.intake.classes is None:  # only now is it known how many the model tells apart
                self.intake.classes = logits.shape[1]
                self._hold(self.intake.sift(samples))
                return None
            predicted = logits.argmax(dim=1)
        self._hold(samples)
        return None if predicted is None else (predicted == samples.labels).float().mean().item()

    def _hold(self, samples: Samples) -> None:
        if len(samples):
            self.buffer.append(samples, self.generator)

    def _pick(self) -> Picks:
        """Pick rows of the buffer to train on."""
        pool, shown = self.buffer.pool(), None
        if self.pool_size is not None and self.pool_size < len(pool):
            order = torch.randperm(len(pool), generator=self.generator)[: self.pool_size]
            shown = order.to(self.device)
            pool = pool[shown]
        selector = Naive() if self.slots < self.warm_up else self.selector
        picks = selector.select(pool, self.local, min(self.k, len(pool)), self.generator)
        return picks if shown is None else replace(picks, rows=shown[picks.rows])

    def _learn(self, picks: Picks) -> float | None:
        """Do one optimiser step on the picked rows; none where nothing was picked."""
        if not len(picks):
            return None
        picked = self.buffer.pool()[picks.rows]
        self.model.train()
        target = picked.labels if picks.targets is None else picks.targets
        losses = self.criterion(self.model(picked.inputs), target)
        loss = (losses if picks.weights is None else losses * picks.weights).mean()
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(f"The loss at slot {self.slots} is {value}: lower the learning rate.")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for memory in (self.window, self.average):
            if memory:
                memory.remember(self.model)
        self.buffer.use(picks.rows)
        return value

    def _per_class(self, labels: Tensor) -> Tensor:
        return torch.bincount(labels, minlength=self.intake.classes or 0).cpu()
