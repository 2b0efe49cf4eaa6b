"""Suspects on disk, known by their labels and scores: a page of them is read when it is asked."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tamis.runs.json_lines import Tail, parse_line
from tamis.runs.layout import RunFiles
from tamis.runs.shown import Shown
from tamis.runs.spreadsheet import rearm


class Spine(NamedTuple):
    """What is kept in memory of a suspect: not its picture."""

    id: str
    given: str
    suggested: str
    score: float
    row: int | None
    place: int


class SuspectIndex:
    """The suspects of a run, in their order, 50,000 of them as easily as 50.

    `labels` are all that any of them has or should have. `update` looks whether the file was
    written anew. An older run has only a CSV of them, which is read in its place.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RunFiles.suspects
        self.spines: list[Spine] = []
        self.labels: set[str] = set()
        self._table = folder / RunFiles.table
        self._tail = Tail(self.path)
        self._places: dict[str, int] = {}
        self._from_table: list[Shown] = []
        self.refresh()

    def __len__(self) -> int:
        return len(self.spines)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def refresh(self) -> bool:
        """Read on, and say whether anything was new."""
        if self.path.exists():
            new = self._tail.read_placed()
            if not new and not self._tail.anew:
                return False
            if self._tail.anew or self._from_table:
                self.spines, self._places, self._from_table = [], {}, []
                self.labels = set()
            for place, line in new:
                suspect = Shown.of(line)
                if suspect and suspect.id not in self._places:
                    self._add(suspect, place)
            return True
        if self.spines or not self._table.exists():
            return False
        self._from_table = list(read_table(self._table))
        for place, suspect in enumerate(self._from_table):
            self._add(suspect, place)
        return bool(self.spines)

    def spine(self, name: str) -> Spine | None:
        """Find a suspect by its id."""
        at = self._places.get(name)
        return None if at is None else self.spines[at]

    def read(self, spines: Sequence[Spine]) -> list[Shown]:
        """Read these suspects whole."""
        if self._from_table:
            return [self._from_table[spine.place] for spine in spines]
        try:
            with self.path.open("rb") as file:
                found = []
                for spine in spines:
                    file.seek(spine.place)
                    suspect = Shown.of(parse_line(file.readline()) or {})
                    if suspect and suspect.id == spine.id:  # else the file was written anew
                        found.append(suspect)
                return found
        except FileNotFoundError:
            return []

    def where(self, fits: Callable[[Spine], bool]) -> list[Spine]:
        """Return the suspects that fit, in order."""
        return [spine for spine in self.spines if fits(spine)]

    def _add(self, suspect: Shown, place: int) -> None:
        self._places[suspect.id] = len(self.spines)
        self.labels |= {suspect.given, suspect.suggested}
        self.spines.append(
            Spine(suspect.id, suspect.given, suspect.suggested, suspect.score, suspect.row, place)
        )


def read_table(path: Path) -> Iterator[Shown]:
    """Read suspects.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            try:
                name, given, suggested = (rearm(cells[key]) for key in ("id", "given", "suggested"))
                yield Shown(name, given, suggested, float(cells["score"]))
            except (KeyError, TypeError, ValueError):
                continue
