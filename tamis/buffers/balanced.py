"""Class-balancing reservoir sampling: Chrysakis and Moens, ICML 2020."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from tamis.buffers.store import Store
from tamis.data import Samples


class BalancedReservoir(Store):
    """Keep classes as even as the stream allows, and each of them a uniform sample.

    Classes are those of the given labels, since the right ones are not known. A row that is
    relabelled counts as one that came with that label, a row that is removed as one that never
    came.
    """

    def __init__(self, capacity: int, *, disk: str | Path | None = None) -> None:
        super().__init__(capacity, disk=disk)
        self._seen: Counter[int] = Counter()
        self._rows: dict[int, list[int]] = {}
        self._once_largest: set[int] = set()

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take each row in at random, in the place of a random one of the largest class."""
        labels = samples.labels.tolist()
        first, overflow = self.count, self.fill(samples)
        filled = len(samples) - len(overflow)
        for row, label in enumerate(labels[:filled]):
            self._seen[label] += 1
            self._rows.setdefault(label, []).append(first + row)

        drawn = torch.rand(len(overflow), 2, generator=generator, dtype=torch.float64).tolist()
        latest: dict[int, int] = {}
        for row, (label, (enter, where)) in enumerate(zip(labels[filled:], drawn, strict=True)):
            self._seen[label] += 1
            place = self._place(label, enter, where)
            if place is not None:
                latest[place] = row
        if latest:
            device = samples.labels.device
            rows = torch.tensor(list(latest.values()), device=device)
            self.write(torch.tensor(list(latest), device=device), overflow[rows])

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows by their ids; return how many rows have changed."""
        changed = super().relabel(ids, labels)
        if changed:
            self._count_classes()
        return changed

    def remove(self, ids: Tensor) -> int:
        """Remove rows by their ids; return how many are gone."""
        removed = super().remove(ids)
        if removed:
            self._count_classes()
        return removed

    def state_dict(self) -> dict[str, Any]:
        """Return the rows held, and the places of each class, in the order that breaks ties."""
        return super().state_dict() | {
            "seen": self._seen,
            "places": {label: torch.tensor(rows) for label, rows in self._rows.items()},
            "once_largest": sorted(self._once_largest),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hold the rows of a state, by class."""
        super().load_state_dict(state)
        self._seen = Counter(state["seen"])
        self._rows = {label: rows.long().tolist() for label, rows in state["places"].items()}
        self._once_largest = set(state["once_largest"])

    def _count_classes(self) -> None:
        """Find the rows of each class again, and count those seen by the labels they have now.

        A class that has lost rows may grow again, even if it was the largest once.
        """
        before, self._rows = self._rows, {}
        for row, label in enumerate(self.pool().labels.tolist() if self.count else []):
            self._rows.setdefault(label, []).append(row)
        for label in before.keys() | self._rows.keys():
            gained = len(self._rows.get(label, ())) - len(before.get(label, ()))
            self._seen[label] += gained
            if gained < 0:
                self._once_largest.discard(label)

    def _place(self, label: int, enter: float, where: float) -> int | None:
        """Return the place that a row takes, or None where it is not taken in."""
        largest = max(self._rows, key=lambda name: len(self._rows[name]))
        self._once_largest.add(largest)
        mine = self._rows.setdefault(label, [])
        if label in self._once_largest:
            if enter > len(mine) / self._seen[label]:
                return None
            return mine[int(where * len(mine))] if mine else None
        theirs = self._rows[largest]
        position = int(where * len(theirs))
        place = theirs[position]
        theirs[position] = theirs[-1]
        theirs.pop()
        mine.append(place)
        return place
