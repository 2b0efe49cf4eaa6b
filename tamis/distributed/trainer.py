"""The trainer whose stream, buffer and step are spread over ranks."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.checkpoint import State
from tamis.data import NO_SAMPLES, Picks, Samples, Slot
from tamis.distributed.group import Ranks
from tamis.distributed.pool import SharedPool, owners
from tamis.distributed.shard import Shard
from tamis.distributed.step import SharedStep
from tamis.distributed.view import SharedModel
from tamis.losses import Criterion
from tamis.model_view.view import last_linear
from tamis.noise import Tracker
from tamis.selectors import Naive, Selector
from tamis.sources import Validator
from tamis.training import Augment, Execution, Trainer
from tamis.training.trainer import Outcome
from tamis.training.window import WindowSetting

END = object()
"""What a stream gives that has nothing more to give."""


class Settings(TypedDict, total=False):
    """Those settings of `Trainer` that ranks heed."""

    warm_up: int | Literal["auto"]
    window: WindowSetting
    ema: float | None
    predict_first: bool
    criterion: Criterion
    tracker: Tracker | None
    patience: int
    seed: int


class RankTrainer(Trainer):
    """Trains one model on a stream in shards, each held by one of the ranks.

    A rank holds the shards numbered in `own`: one each, or so many of `shards` as there are fewer
    ranks. Nothing that is learned depends on which ranks those are. `buffer` and `validator` make
    those of a shard, given its number. k counts picks over all ranks, and `pool_size` the rows,
    over all ranks, that a selector is shown: what crosses between ranks depends on it, and not on
    how much they hold.

    In every slot the ranks meet: one pool is shown to all, each runs the same selection on it, and
    trains on those picks that it holds. With `every` above 1 they meet every so many slots; in
    between each shard picks its share by itself, with what the selector knew after the last
    meeting, and steps are still taken together.

    `run` and `step` take a stream, or an item, for each shard that is here. A stream that has
    nothing yet gives None, and one that ends leaves the others to go on. Arriving rows are
    predicted while the ranks meet, so that `Slot.agreement`, and what a tracker is shown, are of
    the rows that came before the meeting before.
    """

    buffer: SharedPool
    _take_step: SharedStep

    def __init__(
        self,
        ranks: Ranks,
        model: nn.Module,
        optimizer: Optimizer,
        selector: Selector,
        buffer: Callable[[int], Buffer],
        k: int = 32,
        *,
        shards: int | None = None,
        every: int = 1,
        pool_size: int = 1024,
        augment: Augment | None = None,
        validator: Callable[[int], Validator] | None = None,
        classes: int | None = None,
        precision: torch.dtype | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        unheeded = settings.keys() - Settings.__annotations__.keys()
        if unheeded:
            raise TypeError(f"Ranks do not heed {', '.join(sorted(unheeded))}.")
        shards = ranks.size if shards is None else shards
        if min(shards, every, pool_size) < 1:
            raise ValueError("Shards, slots from meeting to meeting and rows shown are at least 1.")
        classes = classes or last_linear(model)[1].out_features
        seed = settings.get("seed", 0)
        self.ranks = ranks
        self.own = (owners(shards, ranks.size) == ranks.number).nonzero()[:, 0].tolist()
        self._shards = [
            Shard(
                number,
                shards,
                buffer(number),
                Validator(classes) if validator is None else validator(number),
                ranks.device,
                seed,
            )
            for number in self.own
        ]
        pool = SharedPool(ranks, shards, self._shards, pool_size)
        super().__init__(
            model, optimizer, selector, pool, k,
            validator=Validator(classes), execution=Execution(ranks.device, precision), **settings,
        )  # fmt: skip
        ranks.share([*self.model.parameters(), *self.model.buffers()])
        self.every = every
        self.chain = ""
        self.view = SharedModel(self.view, pool)
        step = self._take_step
        self._take_step = SharedStep(
            pool, model, optimizer, step.criterion, step.precision, augment, classes
        )
        if every > 1:
            self._hand_out()

    def run(self, *streams: Iterable[Any]) -> Iterator[Slot]:
        """Do slots until the streams of all ranks have ended: one stream for each shard here."""
        self._check(streams)
        waiting = [iter(stream) for stream in streams]
        while True:
            items = [next(stream, END) for stream in waiting]
            slot = self._slot(
                [None if item is END else item for item in items],
                alive=any(item is not END for item in items),
            )
            if slot is None:
                return
            yield slot

    def step(self, *items: Any) -> Slot:
        """Do one slot, with what has come for each shard here; None where nothing has.

        Every rank does every slot, whether or not it has anything.
        """
        self._check(items or self.own)
        slot = self._slot(list(items), alive=True)
        if slot is None:
            raise AssertionError("a rank that is alive goes on")
        return slot

    def settings(self) -> dict[str, Any]:
        """Say all that the numbers of a run depend on; the number of ranks is not among it."""
        augment = {"augment": repr(self._take_step.augment)}
        spread = {"shards": self.buffer.shards, "every": self.every}
        return super().settings() | augment | spread

    def state_dict(self) -> State:
        """Return what all ranks have in common; that of the shards is saved beside it."""
        return super().state_dict() | {"chain": self.chain}

    def load_state_dict(self, state: State) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.chain = state["chain"]

    @property
    def shards(self) -> list[Shard]:
        """The shards that are here."""
        return self._shards

    def _check(self, given: Iterable[Any]) -> None:
        count = len(list(given))
        if count != len(self.own):
            raise ValueError(f"Rank {self.ranks.number} has shards {self.own}, and got {count}.")

    def _slot(self, items: list[Any], alive: bool) -> Slot | None:
        """Do one slot; none where a meeting finds that all streams have ended."""
        started = perf_counter()
        for shard, item in zip(self._shards, items, strict=False):
            if item is not None:
                shard.take_in(item)
        before = [shard.generator.get_state() for shard in self._shards if not alive]
        if self.slots % self.every == 0:
            held = self._meet(alive)
        else:
            held = self.buffer.stay()
            self._predict()
        if not self.buffer.alive:
            for shard, state in zip(self._shards, before, strict=True):
                shard.generator.set_state(state)  # as if this slot had not been tried
            return None
        outcome, select_seconds = self._pick_and_learn(held)
        self.slots += 1
        for shard in self._shards:
            shard.slots = self.slots
        if not self.buffer.apart:
            self._seal(outcome.picked)
        slot = self._tell(held, outcome, self.buffer.agreement, select_seconds, started)
        return replace(slot, held=self.buffer.held)

    def _meet(self, alive: bool) -> Samples:
        """Learn from the other ranks what there is to pick from, and what they have seen."""
        chain = int.from_bytes(bytes.fromhex(self.chain)[:8], signed=True)
        watched = self.predict_first and self.tracker is not None
        held = self.buffer.meet(alive, chain, watched, self._predict)
        self.validator.seen = self.buffer.seen
        self.validator.rejects.counts = Counter(rows=self.buffer.skipped)
        if self.tracker and self.buffer.beliefs:
            sure, chosen = self.buffer.beliefs
            choice, labels = chosen.unbind(dim=1)
            shares = functional.one_hot(choice, self._take_step.classes) * sure[:, None]
            self.tracker.update(shares, labels)
        return held if len(held) else NO_SAMPLES

    def _predict(self) -> None:
        """Predict what has come in; others hear of it in the next meeting."""
        for shard in self._shards:
            if self.predict_first:
                shard.predict(self.averaged, self.tracker is not None)

    def _pick_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Do it; whoever has no picks takes part in the step all the same."""
        started = perf_counter()
        selector: Selector = Naive() if self.slots < self.warm_up else self.selector
        apart = self.buffer.apart
        if apart:
            picks = self._pick_apart(held)
        else:
            k = min(self.k, len(held))
            picks = self._pick(selector, held, k) if k else Picks(held.labels)
        planned = perf_counter()
        if self.every > 1 and not apart:
            self._hand_out()
        if not apart and not len(picks):
            return self._nothing, planned - started
        outcome = self._learn(held, picks)
        if not self._take_step.picked:
            return self._nothing, planned - started
        self._watch(outcome.loss)
        for memory in (self.window, self.average):
            if memory:
                memory.update(self.model)
        return outcome, planned - started

    def _pick_apart(self, held: Samples) -> Picks:
        """Let every shard here pick its share from its own rows."""
        found = []
        everything = torch.arange(len(held), device=self.device)
        for shard, where in self.buffer.parts(everything):
            selector = Naive() if self.slots < self.warm_up else shard.selector
            k = self.k // self.buffer.shards + (shard.number < self.k % self.buffer.shards)
            if selector and min(k, len(where)):
                few = min(k, len(where))
                picks = selector.select(held[where], self.view, few, shard.generator)
                if len(picks):
                    found.append(replace(picks, rows=where[picks.rows]))
        return put_together(found, everything)

    def _hand_out(self) -> None:
        """Let every shard go on from what the selector knows now."""
        for shard in self._shards:
            shard.selector = copy.deepcopy(self.selector)

    def _seal(self, picked: Tensor) -> None:
        """Add the picks of a slot to the chain of hashes by which ranks know that they agree."""
        digest = hashlib.sha256(bytes.fromhex(self.chain))
        digest.update(picked.cpu().numpy().tobytes())
        self.chain = digest.hexdigest()


def put_together(found: list[Picks], none: Tensor) -> Picks:
    """Make one of the picks of several shards."""
    if not found:
        return Picks(none[:0])
    weights = targets = None
    if any(picks.weights is not None for picks in found):
        ones = none.new_ones(max(map(len, found)), dtype=torch.float)
        weights = torch.cat([ones[: len(p)] if p.weights is None else p.weights for p in found])
    if found[0].targets is not None:
        targets = torch.cat([picks.targets for picks in found if picks.targets is not None])
    return Picks(torch.cat([picks.rows for picks in found]), weights, targets)
