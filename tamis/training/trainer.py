"""Take in, pick, learn, remember, report."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.buffers.store import Store
from tamis.checkpoint import (
    State,
    check_optimizer,
    check_same_tensors,
    describe,
    get_state,
    set_state,
    tree_to_device,
)
from tamis.data import NO_SAMPLES, Picks, Samples, Slot, label_changes, to_device
from tamis.errors import TamisError
from tamis.losses import Criterion, cross_entropy
from tamis.model_view import Average, ModelView, Window
from tamis.model_view.graph import Graph
from tamis.model_view.view import state_of
from tamis.monitoring import Accuracy
from tamis.monitoring.monitor import Shares, count_classes, purity_of, shares_of
from tamis.noise import Tracker
from tamis.selectors import Naive, Selector
from tamis.selectors.protocol import Planner, Remembers
from tamis.selectors.sampling import draw_rows
from tamis.sources import Validator
from tamis.training.augment import Augment
from tamis.training.execution import CPU, Execution
from tamis.training.step import Step
from tamis.training.window import WindowSetting, resolve_warm_up, resolve_window

COUNTED = 8192
"""Rows held for which shares are counted in every slot; of twice as many, in every other."""
COUNTERS = ("slots", "skipped_steps", "_in_a_row", "_counted", "_count_next", "_renewed")
"""Numbers of a trainer that change."""
REFRESHED = 128
"""Rows whose features are renewed in one pass, at the least: fewer at a time waste the pass."""


class Outcome(NamedTuple):
    """What picking and learning came to, on the device; what is not known is not a number."""

    picked: Tensor
    class_picks: Tensor
    loss: Tensor
    purity: Tensor
    stayed: Tensor
    price: Tensor


class DivergedError(TamisError, ArithmeticError):
    """Training has run away; the steps that would have spoilt the model were not taken."""


class Trainer:
    """Trains a model on a stream, one slot after another.

    In the paper's letters: k is K, window is w. The first `warm_up` slots pick at random; "auto" is
    as many as the selector prefers, and 0 is the default, so that a trainer selects from its first
    slot unless asked otherwise. `ema` is the decay of a running average of the weights, evaluated
    beside the model; None keeps none. Selectors look through the last `window` states or through
    that "average"; "auto" is what the selector prefers.
    `pool_size` bounds the rows that a selector is shown to a random draw from the buffer, so that
    the cost of a slot does not grow with it; None shows all. `predict_first` predicts arriving
    labels before anything is learned from them, which costs a forward pass.

    A `tracker` follows the clean ratio by those predictions. `augment` changes picked inputs and
    targets on their way to the optimiser's step: it is called as `augment(inputs, targets,
    classes, generator)`, as `Mixup` is.

    `execution` sets the device, the precision, CUDA graphs and the feature cache.

    A step whose loss is not finite, or whose gradient has exploded, is not taken but counted in
    `skipped_steps`; `patience` of them in a row raise `DivergedError`. `state_dict` and
    `load_state_dict`, or `Checkpoints` around them, stop a run and resume it as if unbroken.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        selector: Selector,
        buffer: Buffer,
        k: int = 32,
        *,
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
        if k < 1:
            raise ValueError(f"A slot picks at least 1 row, got k={k}.")
        window = resolve_window(window, selector, ema)
        if execution.graphed and window not in ("average", 1):
            raise ValueError('A graph looks through one state: set window to 1 or "average".')
        if patience < 1:
            raise ValueError(f"At least 1 step is skipped before all stops, got {patience}.")
        self.execution = execution
        self.device = torch.device(execution.device)
        self.model = model.to(self.device)
        self.optimizer = optimizer
        self.selector = selector
        self.buffer = buffer
        self.k = k
        self.warm_up = resolve_warm_up(warm_up, selector)
        self.pool_size = pool_size
        self.predict_first = predict_first
        self.patience = patience
        self.augment = augment
        self.validator = validator or Validator()
        self.tracker = tracker
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.average = None if ema is None else Average(ema)
        self.window = None if window == "average" else Window(window)
        precision, graphed = execution.precision, execution.graphed
        self.now, self.averaged, windowed = (
            ModelView(model, memory, criterion, precision=precision, graphed=graphed)
            for memory in (None, self.average, self.window)
        )
        self.view = self.averaged if window == "average" else windowed
        self.slots = self.skipped_steps = self._in_a_row = 0
        self._take_step = Step(model, optimizer, criterion, precision)
        self._graph, self._step_graph = (Graph() if graphed else None for _ in range(2))
        none, unknown = torch.empty(0, dtype=torch.long), torch.tensor(torch.nan)
        self._nothing = Outcome(*(part.to(self.device) for part in (none, none, *[unknown] * 4)))
        self._watched: deque[tuple[int, Tensor, torch.cuda.Event]] = deque()
        self._shares = shares_of(NO_SAMPLES, 0)
        self._counted = self._count_next = 0
        self._renewed = 0

    def run(self, stream: Iterable[Any]) -> Iterator[Slot]:
        """Do a slot for every item of the stream: `Samples`, or pairs of inputs and labels."""
        for item in stream:
            yield self.step(item)

    def step(self, item: Any = None) -> Slot:
        """Do one slot: take in what has come, if anything, then train on k picks."""
        started = perf_counter()
        agreement = None if item is None else self._take_in(item)
        held = self.buffer.pool() if len(self.buffer) else NO_SAMPLES
        outcome, select_seconds = self._nothing, 0.0
        if len(held):
            self._renew(held)
            outcome, select_seconds = self._pick_and_learn(held)
        self.slots += 1
        return self._tell(held, outcome, agreement, select_seconds, started)

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed.

        Buffer, tracker and selector then count these rows under their new labels. Ids that are not
        held are ignored, and so are rows that have the label already.
        """
        classes = self.validator.classes or torch.inf
        if ((labels < 0) | (labels >= classes)).any():
            raise ValueError(f"Labels are at least 0 and below {classes}, got {labels.tolist()}.")
        held = self.buffer.pool() if len(self.buffer) else NO_SAMPLES
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
            self._forget_graphs()  # rows have moved to where no graph looks for them
        return removed

    def accuracy(self, inputs: Tensor, labels: Tensor) -> Accuracy:
        """Share of labels that the model predicts, and that its average does."""
        labels = labels.to(self.device)

        def share(view: ModelView) -> float:
            predicted = view.logits(inputs.to(self.device)).argmax(dim=1)
            return (predicted == labels).float().mean().item()

        return Accuracy(share(self.now), share(self.averaged) if self.average else None)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        model = copy.deepcopy(self.model)
        if self.average:
            model.load_state_dict(self.average.states(model)[0], strict=False)
        return model.eval()

    def settings(self) -> dict[str, Any]:
        """Say all that the numbers of a run depend on and that stays as it is."""
        described = ("model", "selector", "buffer", "criterion", "augment", "tracker")
        plain = ("k", "warm_up", "pool_size", "predict_first", "patience", "seed")
        rule = type(self.optimizer).__name__
        return {
            "trainer": type(self).__name__,
            **{name: describe(part) for name, part in self._parts().items() if name in described},
            **{name: getattr(self, name) for name in plain},
            "optimizer": f"{rule} {describe(self.optimizer.defaults)}",
            "window": self.window.length if self.window else "average",
            "ema": self.average and self.average.decay,
            "on_bad": self.validator.on_bad,
            "precision": describe(self.execution.precision),
            "graphed": self.execution.graphed,
            "refresh": self.execution.refresh,
        }

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes.

        What a model, a selector or a loss of your own remembers from slot to slot is in it if it
        has `state_dict` and `load_state_dict`, or is a module of torch.
        """
        self._settle()
        if get_state(self.buffer) is None:
            raise TypeError(
                f"{describe(self.buffer)} has no `state_dict` and `load_state_dict`,"
                " so it cannot be saved."
            )
        chance = {"trainer": self.generator.get_state(), "torch": torch.get_rng_state()}
        if self.device.type == "cuda":
            chance["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            **{name: get_state(part) for name, part in self._parts().items()},
            "chance": chance,  # that of torch itself is what dropout draws from
            "counters": {name: getattr(self, name) for name in COUNTERS},
            "shares": self._shares._asdict(),
        }

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors: they may be blank."""
        own = state_of(self.model)
        check_same_tensors("model", state["model"], own)
        check_optimizer(state["optimizer"], self.optimizer)
        average, window = state["average"], state["window"]
        for seen in (window["states"] if window else []) + [average and average["average"]]:
            if seen is not None:
                check_same_tensors("memory of the model", seen, own)
        if isinstance(self.buffer, Store):
            self.buffer.check(state["buffer"])
        counted = [state["counters"][name] for name in COUNTERS] + [average and average["steps"]]
        if any(type(count) is not int or count < 0 for count in counted if count is not None):
            raise ValueError("the counters are no whole numbers from 0 on")

    def load_state_dict(self, state: State) -> None:
        """Go on from a state: every slot from here on is what it would have been."""
        self.check(state)
        here = ("average", "window", "buffer", "shares")
        state = state | {name: tree_to_device(state[name], self.device) for name in here}
        for name, part in self._parts().items():
            set_state(name, part, state[name])
        self.generator.set_state(state["chance"]["trainer"])
        torch.set_rng_state(state["chance"]["torch"])
        if self.device.type == "cuda" and "cuda" in state["chance"]:
            torch.cuda.set_rng_state(state["chance"]["cuda"], self.device)
        for name in COUNTERS:
            setattr(self, name, state["counters"][name])
        self._shares = Shares(**state["shares"])
        self._watched.clear()
        self._forget_graphs()

    @property
    def sound(self) -> bool:
        """Say whether the last step was taken. A run that may be diverging is not to be kept."""
        self._settle()
        return self._in_a_row == 0

    def _parts(self) -> dict[str, object]:
        """Name all that may remember something from slot to slot."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "average": self.average,
            "window": self.window,
            "buffer": self.buffer,
            "selector": self.selector,
            "criterion": self._take_step.criterion,
            "augment": self.augment,
            "validator": self.validator,
            "tracker": self.tracker,
        }

    def _forget_graphs(self) -> None:
        """Have graphs recorded anew: tensors lie elsewhere now."""
        for view in (self.now, self.averaged, self.view):
            view.forget_graphs()
        if self._graph:
            self._graph, self._step_graph = Graph(), Graph()

    def _take_in(self, item: Any) -> Tensor | None:
        """Let the good rows in, having predicted their labels first."""
        samples = self.validator.validate(item).to(self.device)
        predicted = None
        if len(samples) and (self.predict_first or self.validator.classes is None):
            logits = self.averaged.logits(samples.inputs)
            if self.validator.classes is None:  # only now is their number known
                self.validator.classes = logits.shape[1]
                self._hold(self.validator.check_rows(samples))
                return None
            predicted = logits.argmax(dim=1)
            if self.tracker:
                self.tracker.update(logits.softmax(dim=1), samples.labels)
        self._hold(samples)
        return None if predicted is None else (predicted == samples.labels).float().mean()

    def _hold(self, samples: Samples) -> None:
        if not len(samples):
            return
        if self.execution.refresh is not None:
            samples = replace(samples, features=self.view.features(samples.inputs))
        self.buffer.append(samples, self.generator)

    def _renew(self, held: Samples) -> None:
        """Renew the features of the rows whose turn it is."""
        refresh = self.execution.refresh
        if refresh is None or held.features is None:
            return
        every = -(-REFRESHED // refresh)
        if self.slots % every:
            return
        count = min(every * refresh, len(held))
        first = self._renewed % len(held)
        for rows in (slice(first, first + count), slice(0, max(0, first + count - len(held)))):
            inputs = held.inputs[rows]
            if len(inputs):
                held.features[rows] = self.view.features(inputs).to(held.features.dtype)
        self._renewed = first + count

    def _pick_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Do it, as a graph where that can be; return also the seconds that picking took."""
        started = perf_counter()
        selector: Selector = Naive() if self.slots < self.warm_up else self.selector
        k = min(self.k, len(held))
        apart = self.augment or self.pool_size  # chance is drawn between selection and step
        if self._graph and isinstance(selector, Planner) and not apart:
            chosen = selector
            chance = chosen.plan(len(held), k, self.generator)

            def play(*chance: Tensor) -> Outcome:
                return self._learn(held, chosen.choose(held, self.view, k, *chance))

            rates = [group["lr"] for group in self.optimizer.param_groups]
            sent = [to_device(part, self.device) for part in chance]
            planned = perf_counter()
            outcome = Outcome(*self._graph((selector, len(held), rates), play, *sent))
        else:
            picks = self._pick(selector, held, k)
            planned = perf_counter()
            outcome = self._learn(held, picks) if len(picks) else self._nothing
        if outcome is not self._nothing:
            self._watch(outcome.loss)
            for memory in (self.window, self.average):
                if memory:
                    memory.update(self.model)
        return outcome, planned - started

    def _pick(self, selector: Selector, held: Samples, k: int) -> Picks:
        """Pick rows of the buffer to train on."""
        if self.pool_size is None or self.pool_size >= len(held):
            return selector.select(held, self.view, k, self.generator)
        shown = draw_rows(len(held), self.pool_size, self.generator, self.device)
        pool = held[shown]
        picks = selector.select(pool, self.view, min(k, len(pool)), self.generator)
        return replace(picks, rows=shown[picks.rows])

    def _learn(self, held: Samples, picks: Picks) -> Outcome:
        """Do one optimiser step on the picked rows."""
        inputs = held.inputs[picks.rows]
        targets = held.labels[picks.rows] if picks.targets is None else picks.targets
        if self.augment:
            inputs, targets = self.augment(
                inputs, targets, self.validator.classes or 0, self.generator
            )
        return self._report(held, picks, self._descend(inputs, targets, picks.weights))

    def _descend(self, inputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Take the step, as a graph where that can be and is no part of a larger one."""
        if self._step_graph is None or torch.cuda.is_current_stream_capturing():
            return self._take_step(inputs, targets, weights)

        def play(inputs: Tensor, targets: Tensor, *weights: Tensor) -> tuple[Tensor]:
            return (self._take_step(inputs, targets, weights[0] if weights else None),)

        rates = [group["lr"] for group in self.optimizer.param_groups]
        weighed = () if weights is None else (weights,)
        return self._step_graph(rates, play, inputs, targets, *weighed)[0]

    def _report(self, held: Samples, picks: Picks, loss: Tensor) -> Outcome:
        """Count the uses of what was learned from, and say what it was."""
        self.buffer.use(picks.rows, picks.weights)
        labels, ids = held.labels[picks.rows], held.ids[picks.rows]
        if picks.weights is not None:
            ids = ids.masked_fill(picks.weights == 0, -1)
        purity, search = purity_of(held, picks), picks.search
        unknown = self._nothing.loss
        return Outcome(
            ids,
            count_classes(labels, self.validator.classes or 0, picks.weights),
            loss,
            unknown if purity is None else purity,
            search.stayed if search else unknown,
            search.price if search else unknown,
        )

    def _watch(self, loss: Tensor) -> None:
        """Count a step that was not taken; on a GPU, once its loss has come over by itself."""
        if loss.device.type == "cpu":
            self._judge(self.slots, loss)
            return
        event = torch.cuda.Event()
        here = torch.empty((), pin_memory=True).copy_(loss, non_blocking=True)
        event.record()
        self._watched.append((self.slots, here, event))
        while self._watched and self._watched[0][2].query():
            slot, here, _ = self._watched.popleft()
            self._judge(slot, here)

    def _settle(self) -> None:
        """Wait for all losses that are still on their way."""
        while self._watched:
            slot, here, event = self._watched.popleft()
            event.synchronize()
            self._judge(slot, here)

    def _judge(self, slot: int, loss: Tensor) -> None:
        if loss.isfinite():
            self._in_a_row = 0
            return
        self.skipped_steps += 1
        self._in_a_row += 1
        if self._in_a_row >= self.patience:
            raise DivergedError(
                f"By slot {slot}, {self._in_a_row} steps in a row had a loss that is not finite or"
                " a gradient far too steep, and were not taken: lower the learning rate."
            )

    def _tell(
        self,
        held: Samples,
        outcome: Outcome,
        agreement: Tensor | None,
        select_seconds: float,
        started: float,
    ) -> Slot:
        if self.slots >= self._count_next or len(held) > 2 * self._counted:
            self._shares, self._counted = shares_of(held, self.validator.classes or 0), len(held)
            self._count_next = self.slots + max(1, len(held) // COUNTED)
        return Slot(
            number=self.slots - 1,
            warm_up=self.slots <= self.warm_up,
            seen=self.validator.seen,
            held=len(held),
            skipped=self.validator.rejects.total,
            picked=outcome.picked,
            class_picks=outcome.class_picks,
            class_held=self._shares.class_held,
            figures={
                "loss": outcome.loss,
                "agreement": agreement,
                "purity": outcome.purity,
                "recall": self._shares.recall,
                "coverage": self._shares.coverage,
                "stayed": outcome.stayed,
                "price": outcome.price,
            },
            select_seconds=select_seconds,
            seconds=perf_counter() - started,
        )
