"""A stream whose labels come later than their rows: shuffled, twice, withdrawn, or never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Generator

from tamis.data import NO_SAMPLES, UNLABELLED, Event, Events, Samples, concat


@dataclass(frozen=True)
class LateLabels:
    """Play a stream with its labels late by so many slots, as events.

    With `on_time`, rows are held back instead until their labels come: the same labels are then
    known in the same slots, and nothing waits. Iterating twice yields the same events.

    Parameters
    ----------
    stream: the rows with their labels.
    slots: how late a label comes, on average.
    spread: share of that by which labels are earlier or later at the most, so that they come in
        another order than their rows.
    repeated: share of labels that come a second time.
    withdrawn: share of labels that are withdrawn again.
    missing: share of labels that never come.
    on_time: whether rows come together with their labels.
    seed: of all random draws.

    >>> rows = [Samples.of(torch.zeros(1, 2), torch.tensor([number])) for number in range(2)]
    >>> [[(e.row, e.label) for e in slot.events] for slot in LateLabels(rows, 1, spread=0)]
    [[(0, None)], [(0, None), (None, 0)], [(None, 1)]]
    """

    stream: Iterable[Samples]
    slots: int
    spread: float = 0.2
    repeated: float = 0.0
    withdrawn: float = 0.0
    missing: float = 0.0
    on_time: bool = False
    seed: int = 0

    def __iter__(self) -> Iterator[Events]:
        generator = Generator().manual_seed(self.seed)
        due: dict[int, list[tuple[Event, Samples | None]]] = defaultdict(list)
        slot = -1
        for slot, samples in enumerate(self.stream):
            self._plan(due, slot, samples, generator)
            yield self._slot(samples, due.pop(slot, []))
        while due:
            slot += 1
            yield self._slot(NO_SAMPLES, due.pop(slot, []))

    def _plan(
        self,
        due: dict[int, list[tuple[Event, Samples | None]]],
        slot: int,
        samples: Samples,
        generator: Generator,
    ) -> None:
        """Draw when the labels of these rows come, come again and are withdrawn."""
        drawn = torch.rand(len(samples), 6, generator=generator, dtype=torch.float64)
        labels, ids = samples.labels.tolist(), samples.ids.tolist()
        for row, (label, row_id) in enumerate(zip(labels, ids, strict=True)):
            late, again, later, gone, until, missing = drawn[row].tolist()
            if missing < self.missing:
                continue
            came = slot + round(self.slots * (1 + self.spread * (2 * late - 1)))
            given = samples[slice(row, row + 1)] if self.on_time else None
            due[came].append((Event(row_id, None, label), given))
            if again < self.repeated and not self.on_time:
                more = came + round(self.slots * self.spread * later)
                due[more].append((Event(row_id, None, label), None))
            if gone < self.withdrawn:  # after it has come for the last time
                end = came + 1 + round(self.slots * self.spread * (1 + until))
                due[end].append((Event(row_id, None, None), None))

    def _slot(self, samples: Samples, due: list[tuple[Event, Samples | None]]) -> Events:
        """Return the rows and the labels of one slot."""
        if self.on_time:
            rows = [given for _, given in due if given is not None]
            places = iter(range(len(rows)))
            events = [
                event if given is None else event._replace(row=next(places)) for event, given in due
            ]
            return Events(concat(rows) if rows else NO_SAMPLES, tuple(events))
        blank = replace(samples, labels=torch.full_like(samples.labels, UNLABELLED))
        came = [Event(row_id, row, None) for row, row_id in enumerate(samples.ids.tolist())]
        return Events(blank, (*came, *(event for event, _ in due)))
