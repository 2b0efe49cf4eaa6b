"""Names of the files in a run's folder, each in one place."""

from __future__ import annotations

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


FILES = Names()
