"""What every buffer is, and the columns that they share: allocated once, never copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from tamis.buffers.mapped import MappedRows
from tamis.checkpoint import SavedBlocks
from tamis.checkpoint.blocks import slices
from tamis.data import COLUMNS, NO_SAMPLES, Samples, label_changes

PIECE = 2**26
"""Bytes of a column that a pass through all rows has in memory at once."""


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
    """Columns for a fixed number of rows. They are allocated at the first write, by its shapes.

    With `disk`, a folder, inputs are in a file there, mapped into memory, and may be far more than
    memory holds; all other columns are in memory. What is held, and in which order, is the same. A
    checkpoint then writes only the inputs that have changed since the one before.
    """

    counts: tuple[str, ...] = ()
    """Attributes that a subclass saves beside the rows."""

    def __init__(self, capacity: int, *, disk: str | Path | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"A buffer holds at least 1 row, got capacity={capacity}.")
        self.capacity = capacity
        self.disk = None if disk is None else Path(disk)
        self.count = 0
        self._columns: dict[str, Tensor] = {}
        self._mapped: MappedRows | None = None

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}(capacity={self.capacity})"

    def pool(self) -> Samples:
        """Return every row held, without copying."""
        if not self._columns:
            raise ValueError("The buffer is empty: append samples before you read the pool.")
        return Samples(**{name: column[: self.count] for name, column in self._columns.items()})

    def prefetch(self, rows: Tensor | slice) -> None:
        """Read rows that are about to be used, where inputs are on disk."""
        if self._mapped:
            self._mapped.prefetch(rows)

    def take(self, rows: Tensor) -> Samples:
        """Return a copy of rows, given their places in the pool."""
        if not self._mapped:
            return self.pool()[rows]
        others = {name: part[rows] for name, part in self._columns.items() if name != "inputs"}
        return Samples(inputs=self._mapped.take(rows), **others)

    def parts(self) -> Iterator[Samples]:
        """Yield the rows held, some at a time, for a pass through all of them."""
        for rows in slices(self.pool().inputs, PIECE) if self.count else ():
            self.prefetch(slice(rows.stop, 2 * rows.stop - rows.start))  # those that come next
            yield self.pool()[rows]

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
            with self._moving(slice(first, self.count)):
                for column in held.columns().values():
                    move_up(column, moved, first)
        if not self.count:
            self._clear()
        return before - self.count

    def write(self, rows: Tensor | slice, samples: Samples) -> None:
        """Put samples into these rows."""
        given = samples.columns()
        if not self._columns:
            self._allocate(given)
        if given.keys() != self._columns.keys():
            raise ValueError(
                "Either all samples of a stream have `clean` and `groups`, or none has."
            )
        for name, column in given.items():
            if self._mapped and name == "inputs":
                self._mapped.write(rows, column)
            else:
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
        rows: dict[str, Any] = {name: part[: self.count] for name, part in self._columns.items()}
        if self._mapped:
            rows["inputs"] = self._mapped.first(self.count)
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
        """Hold the rows of a state, and no others. Where they were held makes no difference."""
        self.check(state)
        self.count = 0
        self._clear()
        rows = state["rows"]
        if rows and isinstance(rows["inputs"], Tensor):
            self.fill(Samples(**rows))
        elif rows:
            self._read(rows)
        for name in self.counts:
            setattr(self, name, state["counts"][name])

    def _read(self, rows: dict[str, Any]) -> None:
        """Read the inputs of a state in parts: they may be more than memory holds."""
        inputs, count = rows["inputs"], len(rows["labels"])
        like = torch.empty(0, *inputs.shape[1:], dtype=inputs.dtype)
        self._allocate(rows | {"inputs": like})
        for first, part in inputs.pieces():
            if self._mapped:
                self._mapped.write(slice(first, first + len(part)), part)
            else:
                self._columns["inputs"][first : first + len(part)] = part
        if self._mapped and isinstance(inputs, SavedBlocks):
            places = slice(len(inputs.places))
            self._mapped.keep(inputs.home, places, inputs.places, inputs.sums)
        for name in rows.keys() - {"inputs"}:
            self._columns[name][:count] = rows[name]
        self.count = count

    def _allocate(self, given: Mapping[str, Tensor]) -> None:
        """Allocate columns of the shapes and types of these."""
        if self.disk:
            self._mapped = MappedRows(self.disk, self.capacity, given["inputs"])
        self._columns = {
            name: self._mapped.rows[: self.capacity]
            if self._mapped and name == "inputs"
            else column.new_empty((self.capacity, *column.shape[1:]))
            for name, column in given.items()
        }

    def _clear(self) -> None:
        self._columns, self._mapped = {}, None

    def _rotate(self, rows: int) -> None:
        """Move the first so many rows behind the others."""
        with self._moving(slice(None)):
            for column in self._columns.values():
                for first, last in ((0, rows), (rows, self.capacity), (0, self.capacity)):
                    reverse(column[first:last])

    @contextmanager
    def _moving(self, rows: slice) -> Iterator[None]:
        """Note that many rows change, which are read in their order."""
        if self._mapped:
            self._mapped.mark(rows)
        with self._mapped.read_in_order() if self._mapped else nullcontext():
            yield


def move_up(column: Tensor, rows: Tensor, first: int) -> None:
    """Move rows, given in their order, to places from `first` on, none of which is behind them."""
    for part in rows.split(rows_at_once(column)):
        column[first : first + len(part)] = column[part]
        first += len(part)


def reverse(column: Tensor) -> None:
    """Turn the order of rows round, in place, a part of them at a time."""
    first, last, most = 0, len(column), rows_at_once(column)
    while last - first > 1:
        count = min(most, (last - first) // 2)
        head, tail = slice(first, first + count), slice(last - count, last)
        column[head], column[tail] = column[tail].flip(0), column[head].flip(0)
        first, last = first + count, last - count


def rows_at_once(column: Tensor) -> int:
    """Return how many rows are in memory at once, in a pass through all."""
    return max(1, PIECE * len(column) // max(1, column.nbytes))
