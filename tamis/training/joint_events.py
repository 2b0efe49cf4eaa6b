"""Labels of several annotators, event by event, as the joint labels that rows get by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from tamis.buffers.waiting import Predicted, WaitingRoom
from tamis.data import REVIEWER, Event, Samples
from tamis.noise import JointLabels

SPARE = 1000
"""Rows remembered beyond two for each that is held or waits, before the others are forgotten."""


class JointEvents:
    """Turns events with labels of annotators into events with joint labels.

    A label becomes the joint one of its row, and where an annotator takes his back, the row has the
    joint label of those that are left. A row that comes again, with the label of another annotator,
    is one more label of the row that is here. Rows that got no label, and whose joint label has
    changed by what others have revealed, get an event of their own.
    """

    def __init__(self, labels: JointLabels, room: WaitingRoom) -> None:
        self.labels, self.room = labels, room

    def translate(
        self, events: Sequence[Event], samples: Samples, predicted: Predicted, held: Tensor
    ) -> list[Event]:
        """Return events with joint labels, for rows that arrive with these predictions."""
        self.labels.grow(1 + max((event.label or 0 for event in events), default=0))
        self.labels.predict(samples.ids, *predicted)
        found: list[Event] = []
        for kind, part in groupby(events, kind_of):
            same = list(part)
            if kind == "label":
                found += self._label(same)
            elif kind == "withdrawal":
                found += self._withdraw(same)
            elif kind == "decision":
                self.labels.relabel([e.id for e in same], [e.label for e in same])
                found += same
            else:
                found += self._meet_labels(same)
        return [*self._once(found, held), *self._changed(found, held)]

    def forget(self, count: int, kept: Callable[[], list[int]]) -> None:
        """Forget rows that are neither among the `kept` ones nor waited for, once there are many.

        `count` is how many are kept.
        """
        if len(self.labels) > 2 * (count + self.room.waiting_labels) + SPARE:
            self.labels.keep([*kept(), *self.room.awaited])

    def _label(self, events: list[Event]) -> list[Event]:
        numbers = [-1 if event.annotator is None else event.annotator for event in events]
        ids = [event.id for event in events]
        joint = self.labels.update(ids, numbers, [event.label for event in events]).tolist()
        return [event._replace(label=label) for event, label in zip(events, joint, strict=True)]

    def _withdraw(self, events: list[Event]) -> list[Event]:
        numbers = [-1 if event.annotator is None else event.annotator for event in events]
        joint = self.labels.withdraw([event.id for event in events], numbers).tolist()
        return [
            event._replace(label=None if label < 0 else label)
            for event, label in zip(events, joint, strict=True)
        ]

    def _meet_labels(self, events: list[Event]) -> list[Event]:
        """Return rows without labels, those with joint labels for which labels have waited."""
        joint = self.labels.labels([event.id for event in events]).tolist()
        return [
            event._replace(label=label) if label >= 0 and self.room.awaits(event.id) else event
            for event, label in zip(events, joint, strict=True)
        ]

    def _once(self, events: list[Event], held: Tensor) -> Iterator[Event]:
        """Yield events; of a row that is here already, only the label."""
        here = self._present(events, held)
        for event in events:
            if event.row is not None and event.label is not None:
                again = event.id in here or event.id in self.room
                here.add(event.id)
                yield event._replace(row=None) if again else event
            else:
                yield event

    def _changed(self, events: list[Event], held: Tensor) -> list[Event]:
        ids, labels = self.labels.pop_changed()
        done = {event.id for event in events}
        pairs = zip(ids.tolist(), labels.tolist(), strict=True)
        found = [Event(row, None, label) for row, label in pairs if label >= 0 and row not in done]
        here = self._present(found, held)
        return [e for e in found if e.id in here or self.room.awaits(e.id)]

    def _present(self, events: Sequence[Event], held: Tensor) -> set[int]:
        """Return those ids of events that are held."""
        ids = torch.tensor([event.id for event in events], dtype=torch.long, device=held.device)
        return set(ids[torch.isin(ids, held)].tolist())


def kind_of(event: Event) -> str:
    """Return what an event is: a row, a label, a decision or a withdrawal."""
    if event.label is None:
        return "withdrawal" if event.row is None else "row"
    return "decision" if event.annotator == REVIEWER else "label"
