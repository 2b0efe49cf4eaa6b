"""The trainer whose stream, buffer and step are spread over ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.checkpoint import State, describe
from tamis.data import NO_SAMPLES, Picks, Samples, Slot
from tamis.distributed.apart import extend_chain, pick_apart
from tamis.distributed.corrections import changed_rows, gather_rows, relabel_tracker
from tamis.distributed.group import Ranks
from tamis.distributed.growth import check_validators, count_needed, shared_level
from tamis.distributed.pool import SharedPool, owners
from tamis.distributed.shard import Shard
from tamis.distributed.step import SharedStep
from tamis.distributed.view import SharedModel
from tamis.losses import Criterion, cross_entropy
from tamis.model_view.passes import last_linear
from tamis.noise import Tracker
from tamis.selectors import Naive, Selector
from tamis.selectors.protocol import Remembers
from tamis.sources import Validator
from tamis.training import Augment, Execution
from tamis.training.base import BaseTrainer, check_labels
from tamis.training.learner import Learner
from tamis.training.report import Arrivals, Outcome
from tamis.training.window import WindowSetting, resolve_warm_up, resolve_window

END = object()
"""Stands for the next item of a stream that has ended."""


class RankTrainer(BaseTrainer):
    """Trains one model on a stream in shards, each held by one of the ranks.

    A rank holds the shards numbered in `own`: one each, or so many of `shards` as there are fewer
    ranks. Nothing that is learned depends on which ranks those are.

    In every slot the ranks meet: all see one pool, each runs the same selection on it, and trains
    on those picks that it holds. With `every` above 1 they meet every so many slots; in between
    each shard picks its share by itself, with the selector's state after the last meeting, and
    steps are still taken together.

    `run` and `step` take a stream, or an item, for each shard of this rank. A stream that has
    nothing yet returns None; when one ends, the others go on. Arriving rows are predicted while the
    ranks meet, so that `Slot.agreement`, and what a tracker sees, are of the rows that came before
    the previous meeting.

    Parameters
    ----------
    ranks: the processes that train together; their device is the trainer's.
    model, optimizer, selector: the same on every rank; the first rank's weights are used.
    buffer, validator: make the buffer and the validator of a shard, given its number.
    k: picks a slot, over all ranks.
    shards: parts of the stream; one a rank unless given.
    every: slots from meeting to meeting.
    pool_size: rows, over all ranks, that a selector sees. What crosses between ranks depends on
        it, and not on how much they hold.
    classes: the model's; taken from its last layer unless given.
    max_classes: labels up to so many are new classes, by which all ranks grow; None takes none.
    precision: type that passes run in; None is the model's own.
    warm_up, window, ema, predict_first, augment, criterion, tracker, patience, seed: as of
        `tamis.Trainer`.
    """

    def __init__(
        self,
        ranks: Ranks,
        model: nn.Module,
        optimizer: Optimizer,
        selector: Selector,
        *,
        buffer: Callable[[int], Buffer],
        k: int = 32,
        shards: int | None = None,
        every: int = 1,
        pool_size: int = 1024,
        augment: Augment | None = None,
        validator: Callable[[int], Validator] | None = None,
        classes: int | None = None,
        max_classes: int | None = None,
        precision: torch.dtype | None = None,
        warm_up: int | Literal["auto"] = 0,
        window: WindowSetting = "auto",
        ema: float | None = 0.99,
        predict_first: bool = True,
        criterion: Criterion = cross_entropy,
        tracker: Tracker | None = None,
        patience: int = 10,
        seed: int = 0,
    ) -> None:
        shards = ranks.size if shards is None else shards
        if min(shards, every, pool_size) < 1:
            raise ValueError("shards, every and pool_size are at least 1.")
        window, how = resolve_window(window, selector, ema), Execution(ranks.device, precision)
        super().__init__(
            Learner(model, optimizer, criterion, how, window=window, ema=ema),
            k,
            warm_up=resolve_warm_up(warm_up, selector),
            predict_first=predict_first,
            patience=patience,
            seed=seed,
        )
        self.ranks = ranks
        self.own = (owners(shards, ranks.size) == ranks.number).nonzero()[:, 0].tolist()
        self.classes = classes or last_linear(model)[1].out_features
        self.max_classes = max_classes
        make = validator or (lambda number: Validator(self.classes, max_classes=max_classes))
        self.shards = [
            Shard(number, shards, buffer(number), make(number), ranks.device, seed, self.classes)
            for number in self.own
        ]
        check_validators(self.shards, max_classes)
        self.pool = SharedPool(ranks, shards, self.shards, pool_size, self.classes)
        ranks.share([*self.model.parameters(), *self.model.buffers()])
        self.selector, self.tracker = selector, tracker
        self.every, self.chain = every, ""
        self.view = SharedModel(self.learner.view, self.pool)
        self._take_step = SharedStep(
            self.pool, model, optimizer, criterion, precision, augment, self.classes
        )
        if max_classes is not None:
            self.check_growth()
        if every > 1:
            self._share_selector()

    def run(self, *streams: Iterable[Any]) -> Iterator[Slot]:
        """Do slots until the streams of all ranks have ended: one stream for each shard here."""
        self._check_count(streams)
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
        """Do one slot, with what has arrived for each shard here; None where nothing has.

        Every rank does every slot, whether or not it has anything.
        """
        self._check_count(items or self.own)
        slot = self._slot(list(items), alive=True)
        if slot is None:
            raise AssertionError("a rank that is alive goes on")
        return slot

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held on any rank; return how many have changed on all.

        Every rank calls it after the same slot, with the corrections that it knows of, if any:
        those of all ranks are made on all. The rank that holds a row changes it; tracker and
        selector follow on every rank, as those of a `Trainer` do.
        """
        check_labels(labels, self.max_classes or self.classes)
        given = torch.stack([ids, labels], dim=1).long().to(self.device)
        wanted = gather_rows(self.ranks, given)
        found = [changed_rows(shard, self.averaged, wanted) for shard in self.shards]
        changed = gather_rows(self.ranks, torch.cat([wanted.new_empty(0, 5), *found]))
        if not len(changed):
            return 0
        ids, after = changed[:, 0], changed[:, 2]
        self.grow(1 + int(after.max()))
        if self.tracker:
            relabel_tracker(self.tracker, changed, self.classes, max(0, self.pool.seen - 1))
        for selector in self._selectors():
            selector.relabel(ids, after)
        for shard in self.shards:
            shard.buffer.relabel(ids, after)
        return len(changed)

    def remove(self, ids: Tensor) -> int:
        """Remove rows held on any rank; return how many are gone from all.

        Every rank calls it after the same slot, as `relabel`.
        """
        gone = gather_rows(self.ranks, ids.long().to(self.device)[:, None])[:, 0]
        count = sum(shard.buffer.remove(gone) for shard in self.shards)
        removed = int(self.ranks.add("corrections", torch.tensor(count, device=self.device)))
        for selector in self._selectors() if removed else ():
            selector.remove(gone)
        return removed

    def on_any_rank(self, flag: bool) -> bool:
        """Return whether a flag is set on any rank. Every rank calls it after the same slot."""
        return not self.ranks.all_true(not flag)

    def _settings(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on; the number of ranks is not among it."""
        return super()._settings() | {
            "selector": describe(self.selector),
            "augment": describe(self._take_step.augment),
            "tracker": describe(self.tracker),
            "precision": describe(self._take_step.precision),
            "pool_size": self.pool.size,
            "shards": self.pool.shards,
            "every": self.every,
        }

    def state_dict(self) -> State:
        """Return what all ranks have in common; that of the shards is saved beside it."""
        return super().state_dict() | {"chain": self.chain}

    def load_state_dict(self, state: State) -> None:
        """Restore a state."""
        super().load_state_dict(state)
        self.chain = state["chain"]

    def _buffers(self) -> list[Buffer]:
        return [shard.buffer for shard in self.shards]

    def _parts(self) -> dict[str, object]:
        return super()._parts() | {
            "pool": self.pool,
            "selector": self.selector,
            "tracker": self.tracker,
        }

    def _selectors(self) -> list[Remembers]:
        """Return those selectors here that remember rows."""
        everyone = [self.selector, *(shard.selector for shard in self.shards)]
        return [selector for selector in everyone if isinstance(selector, Remembers)]

    def _check_count(self, given: Iterable[Any]) -> None:
        count = len(list(given))
        if count != len(self.own):
            raise ValueError(f"Rank {self.ranks.number} has shards {self.own}, and got {count}.")

    def _slot(self, items: list[Any], alive: bool) -> Slot | None:
        """Do one slot; return None where a meeting finds that all streams have ended."""
        started = perf_counter()
        self._take_in(items or [None] * len(self.shards))
        before = [shard.generator.get_state() for shard in self.shards if not alive]
        if self.slots % self.every == 0:
            held = self._meet(alive)
        else:
            held = self.pool.draw_apart()
            self._predict()
        if not self.pool.alive:
            for shard, state in zip(self.shards, before, strict=True):
                shard.generator.set_state(state)  # as if this slot had not been tried
            return None
        outcome, select_seconds = self._pick_and_learn(held)
        self.slots += 1
        for shard in self.shards:
            shard.slots = self.slots
        if not self.pool.apart:
            self.chain = extend_chain(self.chain, outcome.picked)
        pool = self.pool
        slot = self._report.slot(
            self.slots,
            held,
            outcome,
            Arrivals(pool.seen, pool.skipped, self.classes, pool.compared),
            warm_up=self.warm_up,
            select_seconds=select_seconds,
            started=started,
        )
        return replace(slot, held=pool.held)

    def _take_in(self, items: list[Any]) -> None:
        """Hold what has arrived; all ranks first grow by the classes that came up on any."""
        pairs = zip(self.shards, items, strict=True)
        arrived = [NO_SAMPLES if item is None else shard.check_item(item) for shard, item in pairs]
        if self.max_classes is not None:
            self.grow(count_needed(self.ranks, arrived))
        for shard, samples in zip(self.shards, arrived, strict=True):
            shard.hold(samples)

    def _count_classes(self) -> int:
        return self.classes

    def _growing(self) -> list[object]:
        return [*super()._growing(), self._take_step, *self.shards]

    def _level(self) -> float | None:
        return shared_level(self.ranks, self.averaged, self.shards)

    def _grow(self, classes: int, level: float | None) -> None:
        super()._grow(classes, level)
        self.classes = classes

    def _meet(self, alive: bool) -> Samples:
        """Exchange with the other ranks, and return the rows that all can pick from."""
        chain = int.from_bytes(bytes.fromhex(self.chain)[:8], signed=True)
        watched = self.predict_first and self.tracker is not None
        held = self.pool.meet(alive, chain, watched, self._predict)
        if self.tracker and self.pool.predictions:
            confidence, chosen = self.pool.predictions
            predicted, labels = chosen.unbind(dim=1)
            probabilities = functional.one_hot(predicted, self.classes) * confidence[:, None]
            self.tracker.update(probabilities, labels)
        return held if len(held) else NO_SAMPLES

    def _predict(self) -> None:
        """Predict what has arrived; the others receive it in the next meeting."""
        for shard in self.shards:
            if self.predict_first:
                shard.predict(self.averaged, self.tracker is not None)

    def _pick_and_learn(self, held: Samples) -> tuple[Outcome, float]:
        """Pick and learn; a rank that has no picks takes part in the step all the same."""
        started = perf_counter()
        selector: Selector = Naive() if self.slots < self.warm_up else self.selector
        apart = self.pool.apart
        if apart:
            warm = Naive() if self.slots < self.warm_up else None
            picks = pick_apart(self.pool, held, self.view, self.k, warm)
        else:
            k = min(self.k, len(held))
            picks = selector.select(held, self.view, k, self.generator) if k else Picks(held.labels)
        planned = perf_counter()
        if self.every > 1 and not apart:
            self._share_selector()
        if not apart and not len(picks):
            return self._nothing, planned - started
        outcome = self._learn(held, picks)
        if not self._take_step.picked:
            return self._nothing, planned - started
        self._divergence.update(self.slots, outcome.loss)
        self.learner.remember()
        return outcome, planned - started

    def _learn(self, held: Samples, picks: Picks) -> Outcome:
        """Take one step on the picked rows, wherever they are, and count their uses."""
        targets = held.labels[picks.rows] if picks.targets is None else picks.targets
        loss = self._take_step(held.inputs[picks.rows], targets, picks.weights)
        self.pool.use(picks.rows, picks.weights)
        return Outcome.of(held, picks, loss, self.classes, self._nothing)

    def _share_selector(self) -> None:
        """Set every shard's selector to a copy of the common one."""
        for shard in self.shards:
            shard.selector = copy.deepcopy(self.selector)
