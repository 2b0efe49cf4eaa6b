"""Rows that wait for their labels, and labels that wait for their rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis.data import COLUMNS, NO_SAMPLES, UNLABELLED, Event, Samples

PREDICTED = ("predicted", "confidence", "times")
"""Columns beside those of samples."""


class Predicted(NamedTuple):
    """The class that was predicted for each row when it came, and the probability of that class.

    The probability is NaN where no prediction was made before the label was known.
    """

    classes: Tensor
    confidence: Tensor

    def at(self, rows: Tensor) -> Predicted:
        """Return the predictions of some rows."""
        return Predicted(self.classes[rows], self.confidence[rows])

    @classmethod
    def none(cls, count: int, device: torch.device) -> Predicted:
        """Return predictions that were not made."""
        classes = torch.zeros(count, dtype=torch.long, device=device)
        return cls(classes, torch.full((count,), torch.nan, device=device))


class WaitingRoom:
    """Joins rows and labels by id, in whatever order they come, within limits.

    A row waits with the prediction that was made when it came. When the label comes, both leave
    together. The row that waits longest leaves without one where there are more than `rows`, or
    where it came more than `seconds` before the newest event; `unlabelled` counts these. Labels
    that came before their rows wait under the same limits; `unmatched` counts those that leave.
    Time is that of the events, never the machine's: a run that is resumed joins the same rows. An
    event without a time has that of the newest.

    Parameters
    ----------
    rows: rows that wait at the most, and labels that wait for rows.
    seconds: time that either waits at the most; None is without end.
    """

    def __init__(self, rows: int = 10_000, *, seconds: float | None = None) -> None:
        if rows < 1 or (seconds is not None and not seconds > 0):
            raise ValueError(
                f"A waiting room has room for 1 row or more, for some time, got {rows}, {seconds}."
            )
        self.rows, self.seconds = rows, seconds
        self.came = self.joined = self.unlabelled = self.unmatched = 0
        self._clock: float | None = None
        self._columns: dict[str, Tensor] = {}
        self._places: dict[int, int] = {}  # in the order of coming
        self._labels: dict[int, list[Event]] = {}
        self._label_count = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._places

    def __repr__(self) -> str:
        return f"WaitingRoom(rows={self.rows}, seconds={self.seconds})"

    @property
    def labelled(self) -> float | None:
        """Share of the rows that came which have, or had, a label; None before the first."""
        return self.joined / self.came if self.came else None

    @property
    def waiting_labels(self) -> int:
        """Number of labels that wait for their rows."""
        return self._label_count

    @property
    def awaited(self) -> list[int]:
        """Ids of the rows that labels wait for."""
        return list(self._labels)

    def pool(self) -> Samples:
        """Return the rows that wait, without copying. It is valid until rows come or go."""
        if not self._columns:
            return NO_SAMPLES
        return Samples(
            **{name: self._columns[name][: len(self)] for name in COLUMNS if name in self._columns}
        )

    def add(self, samples: Samples, predicted: Predicted, times: list[float | None]) -> None:
        """Add rows whose ids do not wait yet."""
        blank = torch.full_like(samples.labels, UNLABELLED)
        given = samples.columns() | {"labels": blank} | dict(self._beside(predicted, times))
        if not self._columns:
            self._columns = {
                name: column.new_empty((self.rows + 1, *column.shape[1:]))
                for name, column in given.items()
            }
        if given.keys() != self._columns.keys():
            raise ValueError("Either all samples of a stream have `clean` and the like, or none.")
        for row, row_id in enumerate(samples.ids.tolist()):
            place = len(self)
            for name, column in given.items():
                self._columns[name][place] = column[row]
            self._places[row_id] = place
            if len(self) > self.rows:
                self._leave(next(iter(self._places)))

    def take(self, row_id: int) -> tuple[Samples, Predicted]:
        """Remove a row that waits, and return it with its prediction."""
        place = slice(self._places[row_id], self._places[row_id] + 1)
        found = {name: column[place].clone() for name, column in self._columns.items()}
        self._remove(row_id)
        samples = Samples(**{name: part for name, part in found.items() if name in COLUMNS})
        return samples, Predicted(found["predicted"], found["confidence"])

    def remove(self, ids: list[int]) -> int:
        """Forget rows, and labels that wait for them; return how many rows are gone."""
        here = [row_id for row_id in ids if row_id in self._places]
        for row_id in here:
            self._remove(row_id)
        for row_id in ids:
            self.pop_labels(row_id)
        return len(here)

    def hold_label(self, event: Event) -> None:
        """Keep a label until its row comes."""
        timed = event if event.time is not None else event._replace(time=self._clock)
        self._labels.setdefault(event.id, []).append(timed)
        self._label_count += 1
        if self._label_count > self.rows:
            self._leave_label()

    def pop_labels(self, row_id: int) -> list[Event]:
        """Remove and return the labels that wait for a row, oldest first."""
        found = self._labels.pop(row_id, [])
        self._label_count -= len(found)
        return found

    def awaits(self, row_id: int) -> bool:
        """Return whether a label waits for this row."""
        return row_id in self._labels

    def pass_through(self, rows: int) -> None:
        """Count rows that came with their labels."""
        self.came += rows
        self.joined += rows

    def set_clock(self, time: float | None) -> None:
        """Move the clock forward to the time of an event; what has waited too long leaves."""
        if time is None or (self._clock is not None and time <= self._clock):
            return
        if self._clock is None and self._columns:  # rows that came before any time was known
            self._columns["times"].clamp_min_(time)
        self._clock = time
        if self.seconds is None:
            return
        oldest = time - self.seconds
        while self._places and self._time_of(first := next(iter(self._places))) < oldest:
            self._leave(first)
        while self._labels and self._label_time() < oldest:
            self._leave_label()

    def state_dict(self) -> dict[str, Any]:
        """Return the rows by their places, the order in which they came, and the counts."""
        held = {name: column[: len(self)] for name, column in self._columns.items()}
        events = [event for events in self._labels.values() for event in events]
        return {
            "rows": held,
            "order": torch.tensor(list(self._places), dtype=torch.long),
            "labels": [list(event) for event in events],
            "clock": self._clock,
            "counts": {name: getattr(self, name) for name in COUNTS},
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raise a ValueError for a state that does not fit."""
        counts = [state["counts"][name] for name in COUNTS]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError("the waiting room counts in integers from 0 on")
        if len(state["order"]) > self.rows or len(state["labels"]) > self.rows:
            raise ValueError(f"a waiting room of {self.rows} rows cannot hold these")
        if any(len(column) != len(state["order"]) for column in state["rows"].values()):
            raise ValueError("the waiting room lacks rows")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.check(state)
        self._columns = {}
        for name, column in state["rows"].items():
            self._columns[name] = column.new_empty((self.rows + 1, *column.shape[1:]))
            self._columns[name][: len(column)] = column
        ids = state["rows"]["ids"].tolist() if state["rows"] else []
        at = {row_id: place for place, row_id in enumerate(ids)}
        self._places = {row_id: at[row_id] for row_id in state["order"].tolist()}
        self._labels, self._label_count = {}, len(state["labels"])
        for event in state["labels"]:
            self._labels.setdefault(event[0], []).append(Event(*event))
        self._clock = state["clock"]
        for name in COUNTS:
            setattr(self, name, state["counts"][name])

    def _beside(self, predicted: Predicted, times: list[float | None]) -> list[tuple[str, Tensor]]:
        unknown = -torch.inf if self._clock is None else self._clock
        seconds = torch.tensor(
            [unknown if time is None else time for time in times], dtype=torch.double
        )
        return list(zip(PREDICTED, (*predicted, seconds), strict=True))

    def _time_of(self, row_id: int) -> float:
        return self._columns["times"][self._places[row_id]].item()

    def _label_time(self) -> float:
        """Return the time of the label that waits longest; without one, the clock's."""
        time = next(iter(self._labels.values()))[0].time
        return time if time is not None else (self._clock or 0.0)

    def _leave(self, row_id: int) -> None:
        self._remove(row_id)
        self.unlabelled += 1

    def _leave_label(self) -> None:
        row_id = next(iter(self._labels))
        events = self._labels[row_id]
        events.pop(0)
        if not events:
            del self._labels[row_id]
        self._label_count -= 1
        self.unmatched += 1

    def _remove(self, row_id: int) -> None:
        """Remove a row; the last one takes its place, so that the rows stay together."""
        place, last = self._places.pop(row_id), len(self._places)
        if place == last:
            return
        for column in self._columns.values():
            column[place] = column[last]
        self._places[int(self._columns["ids"][place])] = place


COUNTS = ("came", "joined", "unlabelled", "unmatched")
"""Rows that came, rows that were joined with a label, and what left without the other."""
