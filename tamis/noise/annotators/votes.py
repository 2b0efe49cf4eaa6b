"""Labels that were given, in order, with chains through those of a row and of a phase."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Growing:
    """An array that grows at its end; its content is moved only when its room doubles."""

    def __init__(self, fill: float, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        self.fill = fill
        self._room = np.full((0, *shape), fill, dtype)
        self._length = 0

    @property
    def values(self) -> Array:
        """The content, to be read and written in place."""
        return self._room[: self._length]

    def resize(self, length: int) -> None:
        """Grow to a length; no effect where it is as long already."""
        if length > len(self._room):
            room = np.full((max(length, 2 * self._length), *self._room.shape[1:]), self.fill)
            room = room.astype(self._room.dtype)
            room[: self._length] = self.values
            self._room = room
        self._length = max(length, self._length)

    def assign(self, values: Array) -> None:
        """Replace the content."""
        self._room = values.astype(self._room.dtype)
        self._length = len(values)

    def widen(self, size: int) -> None:
        """Grow every axis but the first to a size."""
        added = [(0, size - length) for length in self._room.shape[1:]]
        self._room = np.pad(self.values, [(0, 0), *added], constant_values=self.fill)


COLUMNS = ("rows", "phases", "labels", "orders", "before_in_row", "before_in_phase", "consensus")


class Votes:
    """Labels by number: row, phase of the annotator, class, place within the phase.

    A phase is a stretch of an annotator's labels between two changes. From each label a chain leads
    to the one before it of the same row, and of the same phase. `consensus` is the class that the
    other labels of the row are for, -1 without any, and `confidences` its probability. A label that
    was taken from its row has row -1, and keeps its place among those of its phase until `keep`.
    """

    def __init__(self) -> None:
        self._columns = {name: Growing(-1, np.int32) for name in COLUMNS}
        self._confidences = Growing(0.0, np.float32)
        self._discounts = Growing(1.0, np.float32)
        self._last_in_row = Growing(-1, np.int32)
        self._last_in_phase = Growing(-1, np.int32)
        self._given = Growing(0, np.int64)

    def __getattr__(self, name: str) -> Array:
        """Return a column of labels."""
        if name in COLUMNS:
            return self._columns[name].values
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self._confidences.values)

    @property
    def confidences(self) -> Array:
        """Probability of the consensus."""
        return self._confidences.values

    @property
    def discounts(self) -> Array:
        """How much less the consensus was worth when the label came, 1 being its worth."""
        return self._discounts.values

    @property
    def last_in_row(self) -> Array:
        """The newest label of each row, -1 without one."""
        return self._last_in_row.values

    @property
    def last_in_phase(self) -> Array:
        """The newest label of each phase, -1 without one."""
        return self._last_in_phase.values

    @property
    def given(self) -> Array:
        """Number of labels of each phase."""
        return self._given.values

    def add_phases(self, count: int) -> None:
        """Make room for so many phases in all."""
        self._last_in_phase.resize(count)
        self._given.resize(count)

    def add_rows(self, count: int) -> None:
        """Make room for so many rows in all."""
        self._last_in_row.resize(count)

    def add(self, rows: Array, phases: Array, labels: Array) -> Array:
        """Append labels, the oldest first, and return their numbers."""
        new = np.arange(len(self), len(self) + len(rows))
        total = len(self) + len(rows)
        for column in (*self._columns.values(), self._confidences, self._discounts):
            column.resize(total)
        self.add_rows(int(rows.max()) + 1)
        self.rows[new], self.phases[new], self.labels[new] = rows, phases, labels
        append_to_chain(self.before_in_row, self.last_in_row, rows, new)
        by, first = append_to_chain(self.before_in_phase, self.last_in_phase, phases, new)
        place = np.arange(len(by)) - first
        self.orders[new[by]] = place + self.given[phases[by]]
        np.add.at(self.given, phases, 1)
        return new

    def of_rows(self, rows: Array) -> Array:
        """Return the numbers of all labels of rows."""
        found, at = [], self.last_in_row[rows]
        while len(at := at[at >= 0]):
            found.append(at)
            at = self.before_in_row[at]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def of_phase(self, phase: int) -> Array:
        """Return the numbers of all labels of a phase, in order."""
        return np.flatnonzero(self.phases == phase)

    def newest(self, phases: Array, most: int) -> Array:
        """Return the newest labels of phases, (phases, most), newest first, -1 where no more."""
        width = int(min(most, self.given[phases].max(initial=0)))
        found = np.full((width, len(phases)), -1, np.int64)
        at = self.last_in_phase[phases].astype(np.int64)
        chain = self.before_in_phase
        for step in range(width):
            found[step] = at
            at = np.where(at >= 0, chain[at], -1)
        return found.T

    def move(self, phase: int, count: int, to: int) -> Array:
        """Move the newest labels of a phase to an empty one, and return their numbers, in order."""
        moved = self.of_phase(phase)[-count:]
        first = int(self.orders[moved[0]])
        self.phases[moved] = to
        self.orders[moved] -= first
        self.last_in_phase[phase] = self.before_in_phase[moved[0]]
        self.before_in_phase[moved[0]] = -1
        self.last_in_phase[to] = moved[-1]
        self.given[to] = self.given[phase] - first
        self.given[phase] = first
        return moved

    def take_from_rows(self, which: Array) -> None:
        """Take labels from their rows."""
        rows = np.unique(self.rows[which])
        held = self.of_rows(rows)
        left = held[~np.isin(held, which)]
        self.before_in_row[held] = -1
        self.last_in_row[rows] = -1
        self.rows[which] = -1
        append_to_chain(self.before_in_row, self.last_in_row, self.rows[left], left)

    def ages(self, which: Array | slice) -> Array:
        """Return how many labels of the same phase came after each."""
        found: Array = self.given[self.phases[which]] - 1 - self.orders[which]
        return found

    def keep(self, kept: Array, phases: Array) -> None:
        """Keep some labels and phases, by masks, and number them again; no label's phase goes."""
        for column in (*self._columns.values(), self._confidences, self._discounts):
            column.assign(column.values[kept])
        self.phases[:] = (np.cumsum(phases) - 1)[self.phases]
        self._given.assign(self.given[phases])
        self._last_in_phase.assign(np.full(int(phases.sum()), -1))
        for before, last in (
            (self.before_in_row, self.last_in_row),
            (self.before_in_phase, self.last_in_phase),
        ):
            before[:], last[:] = -1, -1
        in_rows = np.flatnonzero(self.rows >= 0)
        append_to_chain(self.before_in_row, self.last_in_row, self.rows[in_rows], in_rows)
        numbers = np.arange(len(self))
        append_to_chain(self.before_in_phase, self.last_in_phase, self.phases, numbers)

    def weights(self, which: Array | slice, half_life: float | Array) -> Array:
        """Return the weights of labels: halved by each `half_life` later ones of their phase."""
        found: Array = np.exp2(-self.ages(which) / half_life)
        return found

    def state_dict(self) -> dict[str, Array]:
        """Return all columns."""
        return {name: column.values.copy() for name, column in self._all().items()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore what `state_dict` returned."""
        for name, column in self._all().items():
            column.assign(state[name])

    def _all(self) -> dict[str, Growing]:
        return self._columns | {
            "confidences": self._confidences,
            "discounts": self._discounts,
            "last_in_row": self._last_in_row,
            "last_in_phase": self._last_in_phase,
            "given": self._given,
        }


def append_to_chain(before: Array, last: Array, keys: Array, new: Array) -> tuple[Array, Array]:
    """Chain new labels of the same key, in order, behind the last one of each.

    Return the order that sorts them by key, and where the group of each begins in it.
    """
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    by = np.argsort(keys, kind="stable")
    ordered, numbers = keys[by], new[by]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    earlier = np.concatenate([[-1], numbers[:-1]])
    before[numbers] = np.where(begins, last[ordered], earlier)
    last[ordered[ends]] = numbers[ends]
    starts = np.flatnonzero(begins)
    return by, starts[np.cumsum(begins) - 1]
