"""A trainer of one buffer: takes rows in, joins them with labels, and follows corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tamis.buffers import Buffer, WaitingRoom
from tamis.buffers.waiting import Predicted
from tamis.checkpoint import State
from tamis.data import NO_SAMPLES, Events, Samples, label_changes
from tamis.noise import JointLabels, Tracker
from tamis.selectors import Selector
from tamis.selectors.protocol import Audited, Remembers
from tamis.sources import BadInputError, Validator
from tamis.training.arrivals import Intake
from tamis.training.base import (
    ValidatedTrainer,
    accept,
    check_buffer,
    check_labels,
    check_saved,
    compare,
    compare_classes,
)
from tamis.training.feature_cache import FeatureCache
from tamis.training.learner import Learner, check_counts
from tamis.training.report import Compared


class HoldingTrainer(ValidatedTrainer):
    """Takes rows in, and holds them; buffer, tracker and selector follow corrections.

    `joined` are the rows that got their labels in the last slot, and `changed` the ids of rows held
    whose labels events have changed or withdrawn in it.
    """

    def __init__(
        self,
        learner: Learner,
        selector: Selector,
        buffer: Buffer,
        k: int,
        *,
        validator: Validator,
        waiting: WaitingRoom | None,
        annotators: JointLabels | None,
        tracker: Tracker | None,
        features: FeatureCache | None,
        warm_up: int,
        predict_first: bool,
        patience: int,
        seed: int,
    ) -> None:
        super().__init__(
            learner, k, warm_up=warm_up, predict_first=predict_first, patience=patience, seed=seed
        )
        self.selector, self.buffer = selector, buffer
        self.validator, self.annotators, self.tracker = validator, annotators, tracker
        self.joined, self.changed = NO_SAMPLES, list[int]()
        self._features = features
        self.waiting: WaitingRoom | None = None
        self._intake: Intake | None = None
        if waiting is not None or annotators is not None:
            self.wait_in(WaitingRoom() if waiting is None else waiting)

    def wait_in(self, room: WaitingRoom) -> None:
        """Join rows and labels that come apart in a room, from here on."""
        self.waiting = room
        self._intake = Intake(
            self.learner,
            self.validator,
            room,
            predict=self.predict_first,
            annotators=self.annotators,
        )

    @property
    def kept_count(self) -> int:
        """Number of rows held, and of those that wait for their labels."""
        return self.held_count + (len(self.waiting) if self.waiting else 0)

    def kept_ids(self) -> list[int]:
        """Return the ids of the rows held, and of those that wait."""
        return super().kept_ids() + (self.waiting.pool().ids.tolist() if self.waiting else [])

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows held; return how many have changed.

        Buffer, tracker and selector then count these rows under their new labels. Ids that are not
        held are ignored, and so are rows that have the label already. A row that waits for its
        label has it now, and is held.
        """
        check_labels(labels, self.validator.limit)
        if self.annotators is not None:
            self._decide(self.annotators, ids.cpu(), labels.cpu())
        changed = self._relabel_held(ids, labels)
        if self._intake:
            joined = self._intake.label(dict(zip(ids.tolist(), labels.tolist(), strict=True)))
            self._hold(joined.samples, joined.predicted)
            changed += len(joined.samples)
        return changed

    def _decide(self, annotators: JointLabels, ids: Tensor, labels: Tensor) -> None:
        """Take labels of rows that are held or wait as right."""
        kept = torch.isin(ids, torch.tensor(self.kept_ids(), dtype=torch.long))
        if kept.any():
            annotators.grow(int(labels[kept].max()) + 1)
            annotators.relabel(ids[kept], labels[kept])

    def _relabel_held(self, ids: Tensor, labels: Tensor) -> int:
        held = self.held()
        rows, after = label_changes(held, ids, labels)
        if not len(rows):
            return 0
        self._grow_for(after)
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
        Rows and labels that wait are removed as well.
        """
        waited = 0 if self.waiting is None else self.waiting.remove(ids.tolist())
        if self.annotators is not None:
            self.annotators.remove(ids)
        return waited + self._remove_held(ids)

    def _remove_held(self, ids: Tensor) -> int:
        removed = self.buffer.remove(ids)
        if removed:
            if isinstance(self.selector, Remembers):
                self.selector.remove(ids)
            self.forget_graphs()  # rows have moved to where no graph looks for them
        return removed

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Pass to tracker and selector which rows came with a right label, as people found.

        `right` is of int8: 1 right, 0 wrong, -1 where that was undone; it replaces what was passed
        on before about the same ids. The rows are a sample of all, drawn at random. Labels that are
        wrong are still those of the rows: call `relabel` and `remove` after it.
        """
        ids, right = ids.to(self.device), right.to(self.device)
        pass_audit((self.tracker, self.selector), ids, right)

    def state_dict(self) -> State:
        """Return all that the next slots depend on and that changes; see `BaseTrainer`."""
        check_saved(self.buffer)
        return super().state_dict()

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors: they may be blank."""
        super().check(state)
        check_buffer(self.buffer, state["buffer"])
        if self.waiting is not None:
            self.waiting.check(state["waiting"])
        check_counts(list((state["features"] or {}).values()))

    def _buffers(self) -> list[Buffer]:
        return [self.buffer]

    def _parts(self) -> dict[str, object]:
        return super()._parts() | {
            "buffer": self.buffer,
            "selector": self.selector,
            "validator": self.validator,
            "waiting": self.waiting,
            "annotators": self.annotators,
            "tracker": self.tracker,
            "features": self._features,
        }

    def _take_in(self, item: Any) -> Compared | None:
        """Hold the good rows, and return how their labels compare with predictions."""
        if self._intake is None and isinstance(item, Events):
            raise BadInputError(
                "Rows and labels come apart: Trainer(waiting=WaitingRoom()) joins them."
            )
        if self._intake is None or self._intake.is_plain(item):
            samples, logits = accept(
                self.validator,
                item,
                self.learner,
                predict=self.predict_first,
                grow=self._grow_for,
            )
            if self.waiting is not None:
                self.waiting.pass_through(len(samples))
            if logits is not None and self.tracker:
                self.tracker.update(logits.softmax(dim=1), samples.labels)
            self._append(samples)
            return compare(logits, samples.labels)
        ids = self.held().ids
        found = self._intake.take(item, ids, self._take_back)
        self.changed = list(found.withdrawn)
        if found.relabelled:
            pairs = torch.tensor(list(found.relabelled.items()), device=ids.device)
            rows, _ = label_changes(self.held(), pairs[:, 0], pairs[:, 1])
            self.changed += self.held().ids[rows].tolist()
            self._relabel_held(pairs[:, 0], pairs[:, 1])
        compared = self._hold(found.samples, found.predicted)
        if self._intake.joint:
            self._intake.joint.forget(self.kept_count, self.kept_ids)
        return compared

    def _hold(self, samples: Samples, predicted: Predicted) -> Compared | None:
        """Hold rows that have their labels now, and return how these compare with predictions."""
        self._grow_for(samples.labels)
        self._append(samples)
        known = predicted.confidence.isfinite()
        if not known.any():
            return None
        classes, labels = self.validator.classes or 0, samples.labels[known]
        chosen = predicted.at(known)
        if self.tracker:
            one_hot = functional.one_hot(chosen.classes, classes)
            self.tracker.update(one_hot * chosen.confidence[:, None], labels)
        return compare_classes(chosen.classes, labels, classes)

    def _append(self, samples: Samples) -> None:
        self.joined = samples
        if len(samples):
            held = self._features.add(samples) if self._features else samples
            self.buffer.append(held, self.generator)

    def _take_back(self, row_id: int) -> Samples | None:
        """Remove a row from the buffer, and return it as one that was never used."""
        held, ids = self.held(), torch.tensor([row_id], device=self.device)
        at = (held.ids == row_id).nonzero()[:1, 0]
        if not len(at):
            return None
        found = held[at]
        self._remove_held(ids)
        return replace(found, uses=torch.zeros_like(found.uses), features=None)


def pass_audit(parts: Sequence[object], ids: Tensor, right: Tensor) -> None:
    """Pass to those parts that learn from it which rows came with a right label."""
    if len(ids) != len(right) or (len(right) and not set(right.tolist()) <= {-1, 0, 1}):
        raise ValueError(f"An audit has 1, 0 or -1 for each id, got {right.tolist()}.")
    for part in parts:
        if isinstance(part, Audited):
            part.audit(ids, right.to(torch.int8))
