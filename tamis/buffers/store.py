"""Rows allocated once: appending never copies what is there."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from tamis.data import COLUMNS, Samples


class Buffer(Protocol):
    """Holds the paper's D_t, or a bounded part of it."""

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take rows in, and let others go where there is no room."""
        ...

    def pool(self) -> Samples:
        """Show every row held, without copying. The view is good until the next append."""
        ...

    def use(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Count one more use of each of these rows, but for those of weight 0."""
        ...

    def __len__(self) -> int: ...


class Store:
    """Columns for a fixed number of rows. They are allocated at the first write, by its shapes."""

    counts: tuple[str, ...] = ()
    """Numbers that a kind remembers beside the rows."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"A buffer holds at least 1 row, got capacity={capacity}.")
        self.capacity = capacity
        self.count = 0
        self._columns: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}(capacity={self.capacity})"

    def pool(self) -> Samples:
        """Show every row held, without copying."""
        if not self._columns:
            raise ValueError("The buffer is empty: append samples before you ask for the pool.")
        return Samples(**{name: column[: self.count] for name, column in self._columns.items()})

    def use(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Count one more use of each of these rows; a row given twice counts twice."""
        ones = torch.ones_like(rows) if weights is None else (weights > 0).long()
        self._columns["uses"].index_add_(0, rows, ones)

    def write(self, rows: Tensor | slice, samples: Samples) -> None:
        """Put samples into these rows."""
        given = samples.columns()
        if not self._columns:
            self._columns = {
                name: column.new_empty((self.capacity, *column.shape[1:]))
                for name, column in given.items()
            }
        if given.keys() != self._columns.keys():
            raise ValueError(
                "Either all samples of a stream have `clean` and `groups`, or none has."
            )
        for name, column in given.items():
            self._columns[name][rows] = column

    def fill(self, samples: Samples) -> Samples:
        """Write as many samples as there are free rows, and return the rest."""
        taken = min(len(samples), self.capacity - self.count)
        if taken:
            self.write(slice(self.count, self.count + taken), samples[slice(taken)])
            self.count += taken
        return samples[slice(taken, None)]

    def state_dict(self) -> dict[str, Any]:
        """Return the rows held, and what is counted beside them."""
        rows = {name: column[: self.count] for name, column in self._columns.items()}
        return {"rows": rows, "counts": {name: getattr(self, name) for name in self.counts}}

    def check(self, state: dict[str, Any]) -> None:
        """Refuse rows that have no place here, and numbers that count nothing."""
        rows, counts = state["rows"], state["counts"]
        if rows and (set(rows) - set(COLUMNS) or len(Samples(**rows)) > self.capacity):
            raise ValueError(f"a buffer of {self.capacity} rows has no place for these")
        for name in ("labels", "ids", "uses") if rows else ():
            if rows[name].dim() != 1 or rows[name].dtype != torch.long:
                raise ValueError(f"{name} of the buffer are no whole numbers, one a row")
        if any(type(counts[name]) is not int or counts[name] < 0 for name in self.counts):
            raise ValueError("the buffer counts in whole numbers from 0 on")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hold the rows that `state_dict` gave, and no other."""
        self.check(state)
        self.count, self._columns = 0, {}
        if state["rows"]:
            self.fill(Samples(**state["rows"]))
        for name in self.counts:
            setattr(self, name, state["counts"][name])
