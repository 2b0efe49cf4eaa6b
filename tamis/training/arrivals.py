"""What comes in a slot, event by event: rows and labels are joined, labels change or go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis.buffers.waiting import Predicted, WaitingRoom
from tamis.data import UNLABELLED, Event, Events, Samples, concat
from tamis.model_view.passes import last_linear
from tamis.noise import JointLabels
from tamis.sources import Validator
from tamis.sources.class_numbers import BEYOND_LIMIT, NOT_A_CLASS
from tamis.sources.validation import pair_of, samples_of
from tamis.training.base import on_device, predict_arriving
from tamis.training.joint_events import JointEvents
from tamis.training.learner import Learner

Take = Callable[[int], Samples | None]
"""Removes the row of an id from the buffer and returns it; None where it is not held."""


@dataclass
class Joining:
    """A row that has its label: which one, and where the row is.

    `row` is its place among those that arrive; a row that has waited is in `waited`.
    """

    label: int
    row: int | None
    waited: tuple[Samples, Predicted] | None = None


class Joined(NamedTuple):
    """Rows that have got their labels in a slot, with the predictions made before.

    `relabelled` are rows of the buffer whose labels have changed, `withdrawn` those whose labels
    were taken back.
    """

    samples: Samples
    predicted: Predicted
    relabelled: dict[int, int]
    withdrawn: list[int]


class Intake:
    """Takes in what arrives where rows and labels may come apart.

    Parameters
    ----------
    learner: predicts rows as they come.
    validator: checks them.
    room: where rows wait for labels, and labels for rows.
    predict: whether rows are predicted as they come.
    annotators: makes one label of those of several annotators.
    """

    def __init__(
        self,
        learner: Learner,
        validator: Validator,
        room: WaitingRoom,
        *,
        predict: bool,
        annotators: JointLabels | None = None,
    ) -> None:
        self.learner, self.validator, self.room = learner, validator, room
        self.predict = predict
        self.joint = None if annotators is None else JointEvents(annotators, room)
        validator.unlabelled = True
        if validator.classes is None:
            validator.classes = last_linear(learner.model)[1].out_features

    def take(self, item: Any, held: Tensor, take: Take) -> Joined:
        """Return the rows that have their labels by the events of a slot.

        `held` are the ids of the buffer, and `take` removes a row from it.
        """
        events = self._events(item)
        good = self.validator.keep(events.samples) if len(events.samples) else torch.ones(0)
        samples = on_device(events.samples[good.bool()], self.learner)
        probabilities = None
        if self.predict and len(samples) and len(held):  # before, the model has learned nothing
            probabilities = predict_arriving(samples.inputs, self.learner).softmax(dim=1)
        predicted = predictions_of(probabilities, samples)
        followed = self._good_events(events, good)
        if self.joint:
            samples = replace(samples, annotators=None)  # they are in the events
            followed = self.joint.translate(followed, samples, predicted, held)
        ids = torch.tensor([event.id for event in followed], dtype=torch.long, device=held.device)
        walk = EventWalk(
            self.room,
            samples,
            predicted,
            held=set(ids[torch.isin(ids, held)].tolist()),
            take=take,
        )
        for event in followed:
            walk.update(event)
        return walk.joined()

    def _good_events(self, events: Events, good: Tensor) -> list[Event]:
        """Return events whose rows are good and whose labels are classes; reject the others."""
        places, kept = (good.cumsum(0) - 1).tolist(), good.tolist()
        return [
            event if event.row is None else event._replace(row=places[event.row])
            for event in events.events
            if (self._is_known(event) if event.row is None else kept[event.row])
        ]

    def is_plain(self, item: Any) -> bool:
        """Return whether all rows have their labels, and nothing waits that they might meet."""
        apart = isinstance(item, Events) or len(self.room) or self.room.waiting_labels
        if apart or self.joint:
            return False
        labels = item.labels if isinstance(item, Samples) else pair_of(item)[1]
        return not bool((labels == UNLABELLED).any())

    def label(self, labels: dict[int, int]) -> Joined:
        """Return those rows that waited for one of these labels, joined with it."""
        samples = self.room.pool()[slice(0)]
        nobody = predictions_of(None, samples)
        walk = EventWalk(self.room, samples, nobody, held=set(), take=lambda row_id: None)
        for row_id, label in labels.items():
            if row_id in self.room:
                walk.update(Event(row_id, None, label))
        return walk.joined()

    def _events(self, item: Any) -> Events:
        """Return what arrived as events; rows alone have the labels that they came with."""
        if isinstance(item, Events):
            return item
        item = self.validator.numbered(item)
        if not isinstance(item, Samples):
            item = samples_of(*pair_of(item), self.validator.seen)
        return Events.of(item)

    def _is_known(self, event: Event) -> bool:
        """Return whether the label of an event is a class; reject it otherwise."""
        limit = self.validator.limit or 0
        if event.label is None or 0 <= event.label < limit:
            return True
        beyond = self.validator.numbers.open and event.label >= 0
        reason = BEYOND_LIMIT if beyond else NOT_A_CLASS
        self.validator.reject([event.id], reason, f"not from 0 to {limit - 1}")
        return False


class EventWalk:
    """Walks the events of a slot in order: each finds what those before it have done.

    Rows without a label, and with an id that waits or is held already, are repetitions, and not
    looked at. A row that comes with its label replaces one that waits. A label of a row that is
    held changes it; one that is withdrawn sends its row back to wait.

    Parameters
    ----------
    room: rows and labels that wait.
    samples: the rows that arrive.
    predicted: the predictions of these.
    held: those ids of the events that the buffer holds.
    take: removes a row from the buffer.
    """

    def __init__(
        self,
        room: WaitingRoom,
        samples: Samples,
        predicted: Predicted,
        *,
        held: set[int],
        take: Take,
    ) -> None:
        self.room, self.samples, self.predicted = room, samples, predicted
        self.relabelled: dict[int, int] = {}
        self.withdrawn: list[int] = []
        self._held, self._take = held, take
        self._joining: dict[int, Joining] = {}
        self._repeats: list[Joining] = []

    def update(self, event: Event) -> None:
        """Follow one more event."""
        self.room.set_clock(event.time)
        if event.row is not None:
            self._row(event, event.row)
        elif event.label is not None:
            self._label(event, event.label)
        else:
            self._withdraw(event)

    def joined(self) -> Joined:
        """Return the rows that have their labels now, in the order in which they got them."""
        found = [*self._repeats, *self._joining.values()]
        self.room.joined += len(found)
        here = [each.row for each in found if each.row is not None]
        rows = torch.tensor(here, dtype=torch.long, device=self.samples.labels.device)
        parts, predicted = [self.samples[rows]], [self.predicted.at(rows)]
        for each in found:
            if each.waited:
                parts.append(each.waited[0])
                predicted.append(each.waited[1])
        samples = parts[0] if len(parts) == 1 else concat([part for part in parts if len(part)])
        arrived = [each.row is not None for each in found]
        order = torch.tensor(arrived, device=rows.device).logical_not().long().argsort(stable=True)
        back = order.argsort().to(rows.device)
        labels = torch.tensor([each.label for each in found], device=rows.device)
        classes, confidence = (torch.cat(part) for part in zip(*predicted, strict=True))
        return Joined(
            replace(samples[back], labels=labels.long()),
            Predicted(classes[back], confidence[back]),
            self.relabelled,
            self.withdrawn,
        )

    def _row(self, event: Event, row: int) -> None:
        self.room.came += 1
        waited = self.room.pop_labels(event.id)
        label = event.label if event.label is not None or not waited else waited[-1].label
        if label is not None:
            self.room.remove([event.id])
            if event.id in self._joining:
                self._repeats.append(self._joining.pop(event.id))
            self._joining[event.id] = Joining(label, row)
        elif not (event.id in self.room or event.id in self._joining or event.id in self._held):
            self._wait(row, event.time)

    def _label(self, event: Event, label: int) -> None:
        if event.id in self._joining:
            self._joining[event.id].label = label
        elif event.id in self.room:
            self._joining[event.id] = Joining(label, None, self.room.take(event.id))
        elif event.id in self._held:
            self.relabelled[event.id] = label
        else:
            self.room.hold_label(event)

    def _withdraw(self, event: Event) -> None:
        if self.room.pop_labels(event.id):
            return
        joining = self._joining.pop(event.id, None)
        if joining and joining.row is not None:
            self._wait(joining.row, event.time)
        elif joining and joining.waited:
            self.room.add(*joining.waited, [event.time])
        elif event.id in self._held:
            self.relabelled.pop(event.id, None)
            self._held.discard(event.id)
            self.withdrawn.append(event.id)
            row = self._take(event.id)
            if row is not None:
                self.room.joined -= 1
                unknown = Predicted.none(len(row), row.labels.device)
                self.room.add(row, unknown, [event.time] * len(row))

    def _wait(self, row: int, time: float | None) -> None:
        at = torch.tensor([row], device=self.samples.labels.device)
        self.room.add(self.samples[at], self.predicted.at(at), [time])


def predictions_of(probabilities: Tensor | None, samples: Samples) -> Predicted:
    """Return the likeliest class of each row and its probability; unknown where none were made."""
    if probabilities is None:
        return Predicted.none(len(samples), samples.labels.device)
    confidence, classes = probabilities.max(dim=1)
    return Predicted(classes, confidence.float())
