"""The trainer of one model: take rows in, pick, learn, remember, report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer, WaitingRoom
from tamis.buffers.store import Store
from tamis.checkpoint import describe
from tamis.data import Picks, Samples, Slot, to_device
from tamis.losses import Criterion, cross_entropy
from tamis.model_view.graph import Graph
from tamis.noise import JointLabels, Tracker
from tamis.selectors import Naive, Selector
from tamis.selectors.protocol import Planner
from tamis.selectors.sampling import draw_rows
from tamis.sources import Validator
from tamis.training.augment import Augment
from tamis.training.execution import CPU, Execution
from tamis.training.feature_cache import FeatureCache
from tamis.training.holding import HoldingTrainer
from tamis.training.learner import Learner
from tamis.training.report import Arrivals, Outcome
from tamis.training.unlabelled import Batch, guess, join
from tamis.training.window import WindowSetting, resolve_warm_up, resolve_window


class Trainer(HoldingTrainer):
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
    waiting: where rows without labels wait for them, and labels for their rows; without it, rows
        come with their labels.
    annotators: makes one label of those that several annotators give to a row.
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
        waiting: WaitingRoom | None = None,
        annotators: JointLabels | None = None,
        tracker: Tracker | None = None,
        execution: Execution = CPU,
        patience: int = 10,
        seed: int = 0,
    ) -> None:
        window = resolve_window(window, selector, ema)
        if execution.graphed and window not in ("average", 1):
            raise ValueError('A graph looks through one state: set window to 1 or "average".')
        learner = Learner(model, optimizer, criterion, execution, window=window, ema=ema)
        view, refresh = learner.view, execution.refresh
        super().__init__(
            learner,
            selector,
            buffer,
            k,
            validator=validator or Validator(),
            waiting=waiting,
            annotators=annotators,
            tracker=tracker,
            features=None if refresh is None else FeatureCache(refresh, view),
            warm_up=resolve_warm_up(warm_up, selector),
            predict_first=predict_first,
            patience=patience,
            seed=seed,
        )
        self.view = view
        self.pool_size = pool_size
        self.augment = augment
        self.execution = execution
        self._graph = Graph() if execution.graphed else None
        if self.validator.numbers.open:
            self.check_growth()

    def run(self, stream: Iterable[Any]) -> Iterator[Slot]:
        """Do a slot for every item of the stream: `Samples`, `Events`, or inputs and labels."""
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
            Arrivals(
                checked.seen, checked.rejects.total, checked.classes or 0, compared, self.waiting
            ),
            warm_up=self.warm_up,
            select_seconds=select_seconds,
            started=started,
        )

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "selector": describe(self.selector),
            "buffer": describe(self.buffer),
            "augment": describe(self.augment),
            "tracker": describe(self.tracker),
            "pool_size": self.pool_size,
            "on_bad": self.validator.on_bad,
            "waiting": describe(self.waiting),
            "annotators": describe(self.annotators),
            "precision": describe(self.execution.precision),
            "graphed": self.execution.graphed,
            "refresh": self.execution.refresh,
        }

    def forget_graphs(self) -> None:
        """Record graphs again when next used: tensors have moved."""
        super().forget_graphs()
        if self._graph:
            self._graph = Graph()

    def _parts(self) -> dict[str, object]:
        return super()._parts() | {"augment": self.augment}

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
            guessed = guess(selector, self.waiting, self.view, k, len(held), self.generator)
            planned = perf_counter()
            outcome = self._learn(held, picks, guessed) if len(picks) else self._nothing
        if outcome is not self._nothing:
            self._divergence.update(self.slots, outcome.loss)
            self.learner.remember()
        return outcome, planned - started

    def _pick(self, selector: Selector, held: Samples, k: int) -> Picks:
        """Pick rows of the buffer to train on."""
        if self.pool_size is None or self.pool_size >= len(held):
            return selector.select(held, self.view, k, self.generator)
        drawn = draw_rows(len(held), self.pool_size, self.generator, self.device)
        pool = self.buffer.take(drawn) if isinstance(self.buffer, Store) else held[drawn]
        picks = selector.select(pool, self.view, min(k, len(pool)), self.generator)
        return replace(picks, rows=drawn[picks.rows])

    def _learn(self, held: Samples, picks: Picks, guessed: Batch | None = None) -> Outcome:
        """Take one optimiser step on the picked rows, and count their uses."""
        batch, classes = Batch.of(held, picks), self.validator.classes or 0
        inputs, targets, weights = join(batch, guessed, classes) if guessed else batch
        if self.augment:
            inputs, targets = self.augment(inputs, targets, classes, self.generator)
        loss = self.learner.descend(inputs, targets, weights)
        self.buffer.use(picks.rows, picks.weights)
        return Outcome.of(held, picks, loss, classes, self._nothing)
