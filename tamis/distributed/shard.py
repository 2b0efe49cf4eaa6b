"""One shard of the stream: its buffer, its validator, its generators, on whatever rank it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tamis.buffers import Buffer
from tamis.buffers.store import Store
from tamis.checkpoint import State, describe, get_state, set_state, tree_to_device
from tamis.data import NO_SAMPLES, Samples
from tamis.model_view import ModelView
from tamis.selectors import Selector
from tamis.selectors.sampling import draw_rows
from tamis.sources import Validator
from tamis.training.base import check_buffer, check_saved
from tamis.training.growth import grow_parts

NO_ROWS = torch.empty(0, dtype=torch.long)
NO_PREDICTIONS = torch.empty(0, 3, dtype=torch.long)
APART = 2**32
"""From the seed of one shard to that of the next: no two runs of small seeds meet."""


class Shard:
    """All that belongs to one part of the stream, and moves with it from rank to rank."""

    def __init__(
        self,
        number: int,
        shards: int,
        buffer: Buffer,
        validator: Validator,
        device: torch.device,
        seed: int,
        classes: int,
    ) -> None:
        self.number = number
        self.shards = shards
        self.buffer = buffer
        self.validator = validator
        self.device = device
        self.slots = 0
        self.generator = torch.Generator().manual_seed(seed + APART * (number + 1))
        # The state of torch's own generator for this shard; dropout draws from it.
        self.rng = torch.Generator(device).manual_seed(seed + APART * (number + 1)).get_state()
        self.arrived, self.drawn = NO_SAMPLES, NO_ROWS
        # Confidence, predicted class and label of rows that the tracker has not seen yet.
        self.unsent = NO_PREDICTIONS
        # Rows predicted since the last meeting: how many of each label, and of each prediction.
        self.compared = torch.zeros(2, classes, dtype=torch.long, device=device)
        self.agreeing = 0
        self.selector: Selector | None = None

    @property
    def sound(self) -> bool:
        """True: whether the model has diverged is not known here."""
        return True

    def check_item(self, item: Any) -> Samples:
        """Return the good rows of an item."""
        samples = self.validator.validate(item)
        if isinstance(item, Samples):
            return samples
        # They were numbered by the validator, which knows of one shard only.
        return replace(samples, ids=samples.ids * self.shards + self.number)

    def hold(self, samples: Samples) -> None:
        """Hold rows that have arrived."""
        if len(samples):
            self.arrived = samples.to(self.device)
            self.buffer.append(self.arrived, self.generator)

    def grow(self, classes: int) -> None:
        """Count by so many classes."""
        more = classes - self.compared.shape[1]
        if more > 0:
            self.compared = functional.pad(self.compared, (0, more))
        grow_parts([self.buffer, self.validator, self.selector], classes)

    def predict(self, view: ModelView, watched: bool) -> None:
        """Predict the labels of what has come in, before anything is learned from it."""
        samples, self.arrived = self.arrived, NO_SAMPLES
        if not len(samples):
            return
        confidence, choice = view.logits(samples.inputs).softmax(dim=1).max(dim=1)
        classes = self.compared.shape[1]
        self.compared[0] += samples.labels.bincount(minlength=classes)
        self.compared[1] += choice.bincount(minlength=classes)
        self.agreeing += int((choice == samples.labels).sum())
        if watched:
            bits = confidence.double().view(torch.long)
            rows = torch.stack([bits, choice, samples.labels], dim=1)
            self.unsent = torch.cat([self.unsent.to(self.device), rows])

    def draw(self, count: int) -> None:
        """Draw the rows of this slot's pool: all of them, in order, where they are few."""
        held = len(self.buffer)
        if held <= count:
            self.drawn = torch.arange(held, device=self.device)
        else:
            self.drawn = draw_rows(held, count, self.generator, self.device)

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the inputs of these rows of the buffer."""
        if isinstance(self.buffer, Store):
            return self.buffer.take(rows).inputs
        return self.buffer.pool().inputs[rows]

    @contextmanager
    def own_rng(self) -> Iterator[None]:
        """Draw from this shard's generator wherever torch's own would be drawn from."""
        cuda = self.device.type == "cuda"
        before = torch.cuda.get_rng_state(self.device) if cuda else torch.get_rng_state()
        self._set_rng(self.rng)
        try:
            yield
        finally:
            self.rng = torch.cuda.get_rng_state(self.device) if cuda else torch.get_rng_state()
            self._set_rng(before)

    def settings(self) -> dict[str, Any]:
        """Return what this shard is."""
        return {
            "shard": self.number,
            "shards": self.shards,
            "buffer": describe(self.buffer),
            "on_bad": self.validator.on_bad,
        }

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes."""
        check_saved(self.buffer)
        return {
            "slots": self.slots,
            "buffer": get_state(self.buffer),
            "validator": self.validator.state_dict(),
            "selector": get_state(self.selector),
            "generator": self.generator.get_state(),
            "rng": self.rng,
            "unsent": self.unsent,
            "compared": self.compared,
            "agreeing": self.agreeing,
        }

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors."""
        check_buffer(self.buffer, state["buffer"])
        unsent = state["unsent"]
        if unsent.dim() != 2 or unsent.shape[1] != 3 or unsent.dtype != torch.long:
            raise ValueError("what a tracker has still to see is no strength, class and label")
        if state["compared"].shape != self.compared.shape:
            raise ValueError("predictions are of another number of classes")

    def load_state_dict(self, state: State) -> None:
        """Restore a state."""
        self.check(state)
        self.slots = state["slots"]
        set_state("buffer", self.buffer, tree_to_device(state["buffer"], self.device))
        self.validator.load_state_dict(state["validator"])
        set_state("selector", self.selector, state["selector"])
        self.generator.set_state(state["generator"])
        self.rng = state["rng"]
        self.unsent = state["unsent"].to(self.device)
        self.compared = state["compared"].clone().to(self.device)
        self.agreeing = state["agreeing"]

    def _set_rng(self, state: Tensor) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)
