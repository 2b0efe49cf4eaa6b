"""Names of the files in a run's folder, each in one place."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Names(NamedTuple):
    """One name for each file."""

    log: str = "log.jsonl"
    about: str = "about.json"
    tracked: str = "tracked.jsonl"
    alarms: str = "alarms.jsonl"
    suspects: str = "suspects.jsonl"
    neighbours: str = "neighbours.jsonl"
    decisions: str = "decisions.jsonl"
    table: str = "suspects.csv"
    report: str = "report.html"

    def of(self, folder: Path) -> dict[str, Path]:
        """Return the paths in a folder, by what they are."""
        return {kind: folder / name for kind, name in self._asdict().items()}


FILES = Names()
