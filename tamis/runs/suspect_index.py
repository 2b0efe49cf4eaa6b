"""The suspects of a run, indexed: labels and scores in memory, previews read from disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tamis.runs.json_lines import Tail, parse_line
from tamis.runs.layout import RunFiles
from tamis.runs.suspects import Suspect, read_suspects_csv


class SuspectIndex:
    """The suspects of a run, in the order of the file and without previews.

    Iterating over the index yields them; `read` returns some of them with their previews, so that
    50,000 suspects cost no more memory than their labels. `labels` are all labels given or
    suggested. A run that has only suspects.csv is read from there.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RunFiles.suspects
        self.labels: set[str] = set()
        self._table = folder / RunFiles.table
        self._tail = Tail(self.path)
        self._suspects: dict[str, Suspect] = {}
        self._offsets: dict[str, int] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._suspects)

    def __iter__(self) -> Iterator[Suspect]:
        return iter(self._suspects.values())

    def __contains__(self, name: str) -> bool:
        return name in self._suspects

    def get(self, name: str) -> Suspect | None:
        """Return the suspect of an id, without preview and probabilities."""
        return self._suspects.get(name)

    def refresh(self) -> bool:
        """Read what the file has gained, and return whether that was anything."""
        if self.path.exists():
            return self._refresh_lines()
        if self._suspects or not self._table.exists():
            return False
        for suspect in read_suspects_csv(self._table):
            self._add(suspect)
        return bool(self._suspects)

    def read(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Return suspects with their previews; those that the file has lost since are left out."""
        if not self.path.exists():  # the CSV has no previews
            return [suspect for suspect in suspects if suspect.id in self]
        found = []
        try:
            with self.path.open("rb") as file:
                for suspect in suspects:
                    file.seek(self._offsets.get(suspect.id, 0))
                    complete = Suspect.from_json(parse_line(file.readline()) or {})
                    if complete and complete.id == suspect.id:  # else the file was replaced
                        found.append(complete)
        except FileNotFoundError:
            return []
        return found

    def _refresh_lines(self) -> bool:
        new = self._tail.read_with_offsets()
        if not new and not self._tail.reset:
            return False
        if self._tail.reset or not self._offsets:  # in place of an older file, or of the CSV
            self._suspects, self._offsets, self.labels = {}, {}, set()
        for offset, line in new:
            suspect = Suspect.from_json(line)
            if suspect and suspect.id not in self._suspects:
                self._add(replace(suspect, preview={}, probabilities={}))
                self._offsets[suspect.id] = offset
        return True

    def _add(self, suspect: Suspect) -> None:
        self._suspects[suspect.id] = suspect
        self.labels |= {suspect.given, suspect.suggested}
