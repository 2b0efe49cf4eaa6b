"""A selector in somebody else's training loop, with all that it remembers from step to step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from tamis.checkpoint import State, get_state, set_state
from tamis.data import Picks
from tamis.integrations.columns import Columns, Inputs
from tamis.losses.targets import as_shares
from tamis.model_view import Average, ModelView
from tamis.selectors import Selector, pick

POSITIONS = Columns()
NEARLY = 1e-5
"""Weights that differ from 1 by rounding alone."""


class Sieve:
    """A selector, its chance, and the running average of the model that it looks through.

    `k` rows of every batch are picked. `ema` is the decay of that average, as in `Trainer`; None
    lets the selector look at the model as it is. After each step of the optimiser, say `update`.
    What stands here is all that a selection depends on besides the model and the batch: a run that
    saves `state_dict` and takes it back by `load_state_dict` goes on with the picks that it would have made.
    `picked` holds the ids of the last picks; `chain` is a checksum of all of them, in order, the
    same for two runs that picked alike.

    >>> from tamis import Naive
    >>> sieve, model = Sieve(Naive(), k=2), nn.Linear(3, 2)
    >>> inputs, targets = sieve.sift(model, (torch.eye(3), torch.tensor([0, 1, 0])))
    >>> sieve.update(model)
    >>> len(inputs), sieve.picked.tolist() == inputs.argmax(dim=1).tolist()
    (2, True)
    """

    def __init__(
        self, selector: Selector, k: int, *, ema: float | None = 0.99, seed: int = 0
    ) -> None:
        if k < 1:
            raise ValueError(f"A batch gives at least 1 pick, got k={k}.")
        self.selector = selector
        self.k = k
        self.average = None if ema is None else Average(ema)
        self.generator = torch.Generator().manual_seed(seed)
        self.seen = 0
        self.picked = torch.empty(0, dtype=torch.long)
        self.chain = 0

    def pick(
        self, model: nn.Module, inputs: Inputs, labels: Tensor, ids: Tensor | None = None
    ) -> Picks:
        """Pick rows of a batch. Without ids rows are numbered as they come."""
        if ids is None:
            ids = torch.arange(self.seen, self.seen + len(labels), device=labels.device)
        self.seen += len(labels)
        picks = pick(
            self.selector, model, inputs, labels, self.k, self.generator, ids, self.average
        )
        if not len(picks):
            raise ValueError(
                f"None of {len(labels)} rows can be trained on: inputs not finite, or no labels."
            )
        self.picked = ids[picks.rows]
        self.chain = crc32(self.picked.cpu().numpy().tobytes(), self.chain)
        if picks.weights is not None and (picks.weights - 1).abs().max() < NEARLY:
            picks = replace(picks, weights=None)
        return picks

    def sift(self, model: nn.Module, batch: Any, columns: Columns = POSITIONS) -> Any:
        """Return what is to be trained on of a batch, with targets where labels stood.

        Targets are class numbers, or shares over classes where the selector mends or weighs
        labels. A weight is a factor on its row of shares: the cross entropy is linear in them.
        """
        inputs, labels, ids = columns.parts(batch)
        picks = self.pick(model, inputs, labels, ids)
        targets = labels[picks.rows] if picks.targets is None else picks.targets
        if picks.weights is not None:
            targets = self._shares(model, inputs, targets) * picks.weights[:, None]
        return columns.chosen(batch, picks.rows, targets)

    def update(self, model: nn.Module) -> None:
        """Remember the model after a step of its optimiser."""
        if self.average:
            self.average.update(model)

    def state_dict(self) -> State:
        """Return all that the next picks depend on, besides the model."""
        return {
            "selector": get_state(self.selector),
            "average": get_state(self.average),
            "chance": self.generator.get_state(),
            "seen": self.seen,
            "chain": self.chain,
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave."""
        set_state("selector", self.selector, state["selector"])
        set_state("average", self.average, state["average"])
        self.generator.set_state(state["chance"])
        self.seen, self.chain = state["seen"], state["chain"]

    def _shares(self, model: nn.Module, inputs: Inputs, targets: Tensor) -> Tensor:
        """Write targets as shares over the classes that the model has outputs for."""
        if targets.is_floating_point():
            return targets
        columns = None
        if not isinstance(inputs, Tensor):
            columns, inputs = inputs, torch.zeros(1, 1, dtype=torch.long, device=targets.device)
        logits = ModelView(model, columns=columns).logits(inputs[:1])
        return as_shares(targets, logits.expand(len(targets), -1))
