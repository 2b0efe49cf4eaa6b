"""The names of the files in a run's folder."""

from __future__ import annotations

from typing import Final


class RunFiles:
    """One name for each file."""

    log: Final = "log.jsonl"
    metadata: Final = "about.json"
    config: Final = "run.toml"
    estimates: Final = "tracked.jsonl"
    alarms: Final = "alarms.jsonl"
    annotators: Final = "annotators.jsonl"
    suspects: Final = "suspects.jsonl"
    neighbours: Final = "neighbours.jsonl"
    audit: Final = "audit.jsonl"
    decisions: Final = "decisions.jsonl"
    table: Final = "suspects.csv"
    test: Final = "test.json"
    rejects: Final = "rejects.jsonl"
    schema: Final = "schema.json"
    model: Final = "model.safetensors"
    checkpoints: Final = "checkpoints"
    journal: Final = "journal"
    lock: Final = "run.lock"
    report: Final = "report.html"
    label_studio: Final = "label-studio.jsonl"
