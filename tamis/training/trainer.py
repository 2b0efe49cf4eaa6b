"""The trainer of one model: take rows in, pick, learn, remember, report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.checkpoint import State, describe
from tamis.data import Picks, Samples, Slot, label_changes, to_device
from tamis.losses import Criterion, cross_entropy
from tamis.model_view.graph import Graph
from tamis.noise import Tracker
from tamis.selectors import Naive, Selector
from tamis.selectors.protocol import Planner, Remembers
from tamis.selectors.sampling import draw_rows
from tamis.sources import Validator
from tamis.training.augment import Augment
from tamis.training.base import (
    BaseTrainer,
    accept,
    check_buffer,
    check_labels,
    check_saved,
    compare,
)
from tamis.training.execution import CPU, Execution
from tamis.training.feature_cache import FeatureCache
from tamis.training.learner import Learner, check_counts
from tamis.training.report import Arrivals, Compared, Outcome
from tamis.training.window import WindowSetting, resolve_warm_up, resolve_window


class Trainer(BaseTrainer):
    """Trains a model on a stream, one slot after another.

    Parameters
    ----------
    model, optimizer: the model in training and torch's rule for its steps.
    selector: picks the rows to train on.
    buffer: the rows held.
    k: picks a slot, the paper's K.
    warm_up: first slots that pick at random. "auto" is as many as the selector prefers; the default
        is 0, so that a trainer selects from its first slot by default.
    window: states that the selector looks through, the paper's w: the last so many, their running
        "average", or, by "auto", what the selector prefers.
    ema: decay of a running average of the weights, evaluated beside the model; None keeps none.
    pool_size: rows, drawn at random from the buffer, that a selector sees, so that the cost of a
        slot does not grow with the buffer; None is all.
    predict_first: predict arriving labels before they are learned from, at a forward pass.
    augment: changes picked inputs and targets before the step, as `Mixup` does. It is called as
        `augment(inputs, targets, classes, generator)`.
    criterion: loss of each row.
    validator: checks arriving rows.
    tracker: follows the clean ratio by the predictions of arriving labels.
    execution: device, precision, CUDA graphs, feature cache.
    patience: steps not taken, in a row, before `DivergedError`.
    seed: of the trainer's own generator.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        selector: Selector,
        buffer: Buffer,
        *,
        k: int = 32,
        warm_up: int | Literal["auto"] = 0,
        window: WindowSetting = "auto",
        ema: float | None = 0.99,
        pool_size: int | None = None,
        predict_first: bool = True,
        augment: Augment | None = None,
        criterion: Criterion = cross_entropy,
        validator: Validator | None = None,
        tracker: Tracker | None = None,
        execution: Execution = CPU,
        patience: int = 10,
        seed: int = 0,
    ) -> None:
        window = resolve_window(window, selector, ema)
        if execution.graphed and window not in ("average", 1):
            raise ValueError('A graph looks through one state: set window to 1 or "average".')
        learner = Learner(model, optimizer, criterion, execution, window=window, ema=ema)
        super().__init__(
            learner,
            k,
            warm_up=resolve_warm_up(warm_up, selector),
            predict_first=predict_first,
            patience=patience,
            seed=seed,
        )
        self.view = learner.view
        self.selector = selector
        self.buffer = buffer
        self.pool_size = pool_size
        self.augment = augment
        self.validator = validator or Validator()
        self.tracker = tracker
        self.execution = execution
        self._features: FeatureCache | None = None
        if execution.refresh is not None:
            self._features = FeatureCache(execution.refresh, self.view)
        self._graph = Graph() if execution.graphed else None

    def run(self, stream: Iterable[Any]) -> Iterator[Slot]:
        """Do a slot for every item of the stream: `Samples`, or pairs of inputs and labels."""
        for item in stream:
            yield self.step(item)

    def step(self, item: Any = None) -> Slot:
        """Do one slot: take in what has arrived, if anything, then train on k picks."""
        started = perf_counter()
        compared = None if item is None else self._take_in(item)
        held = self.held()
        outcome, select_seconds = self._nothing, 0.0
        if len(held):
            if self._features:
                self._features.update(held, self.slots)
            outcome, select_seconds = self._pick_and_learn(held)
        self.slots += 1
        checked = self.validator
        return self._report.slot(
            self.slots,
            held,
            outcome,
            Arrivals(checked.seen, checked.rejects.total, checked.classes or 0, compared),
            warm_up=self.warm_up,
            select_seconds=select_seconds,
            started=started,
        )

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed.

        Buffer, tracker and selector then count these rows under their new labels. Ids that are not
        held are ignored, and so are rows that have the label already.
        """
        check_labels(labels, self.validator.classes)
        held = self.held()
        rows, after = label_changes(held, ids, labels)
        if not len(rows):
            return 0
        ids, before = held.ids[rows], held.labels[rows]
        if self.tracker:
            newest = max(0, self.validator.seen - 1)
            ages = (newest - ids).clamp(0, newest)
            probabilities = self.averaged.probabilities(held.inputs[rows])
            self.tracker.relabel(probabilities, before, after, ages=ages)
        if isinstance(self.selector, Remembers):
            self.selector.relabel(ids, after)
        return self.buffer.relabel(ids, after)

    def remove(self, ids: Tensor) -> int:
        """Remove rows held; return how many. Ids that are not held are ignored.

        The selector forgets them. The tracker does not: it describes the stream, which had them.
        """
        removed = self.buffer.remove(ids)
        if removed:
            if isinstance(self.selector, Remembers):
                self.selector.remove(ids)
            self.forget_graphs()  # rows have moved to where no graph looks for them
        return removed

    def settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on and that does not change."""
        return super().settings() | {
            "selector": describe(self.selector),
            "buffer": describe(self.buffer),
            "augment": describe(self.augment),
            "tracker": describe(self.tracker),
            "pool_size": self.pool_size,
            "on_bad": self.validator.on_bad,
            "precision": describe(self.execution.precision),
            "graphed": self.execution.graphed,
            "refresh": self.execution.refresh,
        }

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes; see `BaseTrainer`."""
        check_saved(self.buffer)
        return super().state_dict()

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors: they may be blank."""
        super().check(state)
        check_buffer(self.buffer, state["buffer"])
        check_counts(list((state["features"] or {}).values()))

    def forget_graphs(self) -> None:
        """Record graphs again when next used: tensors have moved."""
        super().forget_graphs()
        if self._graph:
            self._graph = Graph()

    def _buffers(self) -> list[Buffer]:
        return [self.buffer]

    def _parts(self) -> dict[str, object]:
        return super()._parts() | {
            "buffer": self.buffer,
            "selector": self.selector,
            "augment": self.augment,
            "validator": self.validator,
            "tracker": self.tracker,
            "features": self._features,
        }

    def _take_in(self, item: Any) -> Compared | None:
        """Hold the good rows, and return how their labels compare with predictions."""
        samples, logits = accept(self.validator, item, self.learner, predict=self.predict_first)
        if logits is not None and self.tracker:
            self.tracker.update(logits.softmax(dim=1), samples.labels)
        if len(samples):
            held = self._features.add(samples) if self._features else samples
            self.buffer.append(held, self.generator)
        return compare(logits, samples.labels)

    def _pick_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Pick and learn, as one graph where possible; return also the seconds for picking."""
        started = perf_counter()
        selector: Selector = Naive() if self.slots < self.warm_up else self.selector
        k = min(self.k, len(held))
        apart = self.augment or self.pool_size  # random numbers between selection and step
        if self._graph and isinstance(selector, Planner) and not apart:
            chosen = selector
            draws = chosen.plan(len(held), k, self.generator)

            def play(*draws: Tensor) -> Outcome:
                return self._learn(held, chosen.choose(held, self.view, k, *draws))

            sent = [to_device(part, self.device) for part in draws]
            planned = perf_counter()
            key = (selector, len(held), self.learner.rates())
            outcome = Outcome(*self._graph(key, play, *sent))
        else:
            picks = self._pick(selector, held, k)
            planned = perf_counter()
            outcome = self._learn(held, picks) if len(picks) else self._nothing
        if outcome is not self._nothing:
            self._divergence.update(self.slots, outcome.loss)
            self.learner.remember()
        return outcome, planned - started

    def _pick(self, selector: Selector, held: Samples, k: int) -> Picks:
        """Pick rows of the buffer to train on."""
        if self.pool_size is None or self.pool_size >= len(held):
            return selector.select(held, self.view, k, self.generator)
        drawn = draw_rows(len(held), self.pool_size, self.generator, self.device)
        pool = held[drawn]
        picks = selector.select(pool, self.view, min(k, len(pool)), self.generator)
        return replace(picks, rows=drawn[picks.rows])

    def _learn(self, held: Samples, picks: Picks) -> Outcome:
        """Take one optimiser step on the picked rows, and count their uses."""
        inputs, classes = held.inputs[picks.rows], self.validator.classes or 0
        targets = held.labels[picks.rows] if picks.targets is None else picks.targets
        if self.augment:
            inputs, targets = self.augment(inputs, targets, classes, self.generator)
        loss = self.learner.descend(inputs, targets, picks.weights)
        self.buffer.use(picks.rows, picks.weights)
        return Outcome.of(held, picks, loss, classes, self._nothing)
