"""What every buffer is, and the columns that they share: allocated once, never copied."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from tamis.data import COLUMNS, NO_SAMPLES, Samples, label_changes


class Buffer(Protocol):
    """Holds the paper's D_t, or a bounded part of it."""

    def append(self, samples: Samples, generator: Generator) -> None:
        """Take rows in; where there is no room, others make way or rows are turned away."""
        ...

    def pool(self) -> Samples:
        """Return every row held, without copying. It is valid until rows come or go."""
        ...

    def use(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Count one more use of each of these rows, but for those of weight 0."""
        ...

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows by their ids; return how many rows have changed.

        A corrected label counts as clean. Ids that are not held are ignored, and so are rows that
        have the label already. Of an id given twice, the last label counts.
        """
        ...

    def remove(self, ids: Tensor) -> int:
        """Remove rows by their ids; return how many.

        The others stay in the order in which they make way, and there is room for new ones. Ids
        that are not held are ignored.
        """
        ...

    def __len__(self) -> int: ...


class Store:
    """Columns for a fixed number of rows. They are allocated at the first write, by its shapes."""

    counts: tuple[str, ...] = ()
    """Attributes that a subclass saves beside the rows."""

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
        """Return every row held, without copying."""
        if not self._columns:
            raise ValueError("The buffer is empty: append samples before you read the pool.")
        return Samples(**{name: column[: self.count] for name, column in self._columns.items()})

    def use(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Count one more use of each of these rows; a row given twice counts twice."""
        ones = torch.ones_like(rows) if weights is None else (weights > 0).long()
        self._columns["uses"].index_add_(0, rows, ones)

    def relabel(self, ids: Tensor, labels: Tensor) -> int:
        """Correct the labels of rows by their ids; return how many rows have changed."""
        rows, labels = label_changes(self.pool() if self.count else NO_SAMPLES, ids, labels)
        for name, column in (("labels", labels), ("clean", True)):
            if name in self._columns:
                self._columns[name][rows] = column
        return len(rows)

    def remove(self, ids: Tensor) -> int:
        """Remove rows by their ids, and move the others up; return how many are gone."""
        if not self.count:
            return 0
        held = self.pool()
        gone = torch.isin(held.ids, ids.to(held.ids.device))
        before, self.count = self.count, self.count - int(gone.sum())
        if self.count < before:
            first = int(gone.long().argmax())  # the rows before it stay where they are
            moved = first + (~gone[first:]).nonzero().flatten()
            for name, column in held.columns().items():
                self._columns[name][first : self.count] = column[moved]
        if not self.count:
            self._columns = {}
        return before - self.count

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
        """Raise a ValueError for rows that do not fit, or counts that are none."""
        rows, counts = state["rows"], state["counts"]
        if rows and (set(rows) - set(COLUMNS) or len(Samples(**rows)) > self.capacity):
            raise ValueError(f"a buffer of {self.capacity} rows cannot hold these")
        for name in ("labels", "ids", "uses") if rows else ():
            if rows[name].dim() != 1 or rows[name].dtype != torch.long:
                raise ValueError(f"{name} of the buffer are not integers, one a row")
        if any(type(counts[name]) is not int or counts[name] < 0 for name in self.counts):
            raise ValueError("the buffer counts in integers from 0 on")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hold the rows of a state, and no others."""
        self.check(state)
        self.count, self._columns = 0, {}
        if state["rows"]:
            self.fill(Samples(**state["rows"]))
        for name in self.counts:
            setattr(self, name, state["counts"][name])
