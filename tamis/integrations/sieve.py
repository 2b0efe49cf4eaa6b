"""A selector inside a training loop of the user's own, with all that it remembers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal
from zlib import crc32

import torch
from torch import Tensor, nn

from tamis.checkpoint import State, get_state, set_state
from tamis.data import Picks, Samples
from tamis.integrations.columns import Columns, Inputs
from tamis.losses.targets import as_shares
from tamis.model_view import Average, ModelView, Window
from tamis.selectors import Naive, Plausible, Selector
from tamis.training.window import WindowSetting, resolve_warm_up, resolve_window

POSITIONS = Columns()
NEARLY = 1e-5
"""Weights that differ from 1 by rounding alone."""


class Sieve:
    """Picks rows of every batch to train on, as a `Trainer` with the same settings would.

    Call it with a batch, train on what it returns, and call `update` after the optimiser's step.
    It keeps the average of the weights, or the last states, that the selector looks through, counts
    the uses of every id, and owns the random generator. Its `state_dict` is all that the next picks
    depend on besides the model and the batch. `picked` holds the ids of the last picks; `checksum`
    is one of all picks in order, equal for two runs with identical picks.

    Parameters
    ----------
    model: takes the inputs and returns logits, or an output that has `logits`.
    k: picks of a batch.
    selector: how rows are picked; None is `Plausible()`.
    window: states that the selector looks through, as in `Trainer`.
    warm_up: first batches that are picked from at random, as in `Trainer`.
    ema: decay of the average of the weights; None keeps none.
    remembered: ids whose uses are counted; those unused for longest are forgotten.
    seed: seed of the random generator.

    >>> model = nn.Linear(3, 2)
    >>> sieve = Sieve(model, k=2)
    >>> inputs, targets = sieve(torch.eye(3), torch.tensor([0, 1, 0]), ids=torch.arange(3))
    >>> len(inputs), sieve.picked.tolist() == inputs.argmax(dim=1).tolist()
    (2, True)
    >>> sieve.update()
    """

    def __init__(
        self,
        model: nn.Module,
        k: int,
        selector: Selector | None = None,
        *,
        window: WindowSetting = "auto",
        warm_up: int | Literal["auto"] = "auto",
        ema: float | None = 0.99,
        remembered: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        if k < 1:
            raise ValueError(f"A batch gives at least 1 pick, got k={k}.")
        self.model = model
        self.k = k
        self.selector = Plausible() if selector is None else selector
        self.warm_up = resolve_warm_up(warm_up, self.selector)
        self.average = None if ema is None else Average(ema)
        states = resolve_window(window, self.selector, ema)
        self.window = None if states == "average" else Window(states)
        self.generator = torch.Generator().manual_seed(seed)
        self.uses = Uses(remembered)
        self.seen = self.batches = 0
        self.picked = torch.empty(0, dtype=torch.long)
        self.checksum = 0

    @property
    def averaged(self) -> ModelView:
        """The model with averaged weights, to predict with; as it is where none are kept."""
        return ModelView(self.model, self.average)

    def __call__(
        self, inputs: Inputs, labels: Tensor, ids: Tensor | None = None
    ) -> tuple[Any, Tensor]:
        """Return the inputs to train on and their targets.

        Targets are class numbers, or shares over classes where the selector relabels or weighs
        rows. A weight is a factor on its row of shares: the cross entropy is linear in them. Rows
        that come again are known by their `ids`; without them rows are numbered as they come.
        """
        picks = self.pick(inputs, labels, ids)
        chosen = (
            {name: part[picks.rows] for name, part in inputs.items()}
            if isinstance(inputs, Mapping)
            else inputs[picks.rows]
        )
        return chosen, self._targets(inputs, labels, picks)

    def sift(self, batch: Any, columns: Columns = POSITIONS) -> Any:
        """Return the picked rows of a batch of any form, with targets in place of its labels."""
        inputs, labels, ids = columns.parts(batch)
        picks = self.pick(inputs, labels, ids)
        return columns.chosen(batch, picks.rows, self._targets(inputs, labels, picks))

    def pick(self, inputs: Inputs, labels: Tensor, ids: Tensor | None = None) -> Picks:
        """Return the picked rows of a batch, with their weights and targets if there are any.

        Inputs that the model takes by name, as token ids and their mask, are a dict of tensors; a
        selector then works in feature space, not on the inputs.
        """
        numbers = torch.arange(self.seen, self.seen + len(labels), device=labels.device)
        rows = Samples(*self._single(inputs, labels), numbers, torch.zeros_like(numbers))
        if ids is not None:
            rows = replace(rows, ids=ids, uses=self.uses.of(ids))
        selector = Naive() if self.batches < self.warm_up else self.selector
        view = ModelView(
            self.model,
            self.window or self.average,
            columns=inputs if isinstance(inputs, Mapping) else None,
        )
        picks = selector.select(rows, view, min(self.k, len(rows)), self.generator).real()
        if not len(picks):
            raise ValueError(
                f"None of {len(labels)} rows can be trained on: inputs not finite, or no labels."
            )
        self.seen, self.batches = self.seen + len(labels), self.batches + 1
        self.picked = rows.ids[picks.rows]
        self.checksum = crc32(self.picked.cpu().numpy().tobytes(), self.checksum)
        if ids is not None:
            self.uses.add(self.picked)
        if picks.weights is not None and (picks.weights - 1).abs().max() < NEARLY:
            picks = replace(picks, weights=None)
        return picks

    def check_model(self, model: nn.Module) -> None:
        """Raise unless the model to be trained is, or contains, that of the sieve."""
        if not any(self.model is part for part in model.modules()):
            raise ValueError("The sieve was built for another model than the one to be trained.")

    def update(self) -> None:
        """Take in the model's weights; call it after each step of the optimiser."""
        for memory in (self.window, self.average):
            if memory:
                memory.update(self.model)

    def state_dict(self) -> State:
        """Return all that the next picks depend on, besides the model."""
        return {
            "selector": get_state(self.selector),
            "average": get_state(self.average),
            "window": get_state(self.window),
            "uses": self.uses.state_dict(),
            "generator": self.generator.get_state(),
            "counts": [self.seen, self.batches, self.checksum],
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from what `state_dict` returned."""
        set_state("selector", self.selector, state["selector"])
        set_state("average", self.average, state["average"])
        set_state("window", self.window, state["window"])
        self.uses.load_state_dict(state["uses"])
        self.generator.set_state(state["generator"])
        self.seen, self.batches, self.checksum = state["counts"]

    def _targets(self, inputs: Inputs, labels: Tensor, picks: Picks) -> Tensor:
        targets = labels[picks.rows] if picks.targets is None else picks.targets
        if picks.weights is None:
            return targets
        return self._shares(inputs, targets) * picks.weights[:, None]

    def _single(self, inputs: Inputs, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return one tensor of inputs and the labels; row numbers where inputs have names."""
        if isinstance(inputs, Mapping):
            return torch.arange(len(labels), device=labels.device)[:, None], labels
        return inputs, labels

    def _shares(self, inputs: Inputs, targets: Tensor) -> Tensor:
        """Return targets as shares over the classes that the model has outputs for."""
        if targets.is_floating_point():
            return targets
        columns = None
        if not isinstance(inputs, Tensor):
            columns, inputs = inputs, torch.zeros(1, 1, dtype=torch.long, device=targets.device)
        logits = ModelView(self.model, columns=columns).logits(inputs[:1])
        return as_shares(targets, logits.expand(len(targets), -1))


class Uses:
    """Counts how often each id was picked, for the last `capacity` ids that were.

    >>> uses = Uses(capacity=2)
    >>> uses.add(torch.tensor([7, 8, 7, 9, 7]))
    >>> uses.of(torch.tensor([7, 8, 9])).tolist()
    [3, 0, 1]
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._counts: OrderedDict[int, int] = OrderedDict()

    def of(self, ids: Tensor) -> Tensor:
        """Return the count of each id; 0 where it is not known."""
        counts = [self._counts.get(number, 0) for number in ids.tolist()]
        return torch.tensor(counts, dtype=torch.long, device=ids.device)

    def add(self, ids: Tensor) -> None:
        """Count one more use of each id; an id given twice counts twice."""
        for number in ids.tolist():
            self._counts[number] = self._counts.pop(number, 0) + 1  # the newest are last
        while len(self._counts) > self.capacity:
            self._counts.popitem(last=False)

    def state_dict(self) -> State:
        """Return ids and counts, those unused for longest first."""
        pairs = torch.tensor(list(self._counts.items()), dtype=torch.long).reshape(-1, 2)
        return {"ids": pairs[:, 0].clone(), "counts": pairs[:, 1].clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from what `state_dict` returned."""
        pairs = zip(state["ids"].tolist(), state["counts"].tolist(), strict=True)
        self._counts = OrderedDict(pairs)
