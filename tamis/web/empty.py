"""What stands where there are no suspects: why, and what to do next."""

from __future__ import annotations

from tamis.runs import Run
from tamis.web.words import count_of


def no_suspects(run: Run) -> list[str]:
    """Return why a run has no suspects, and what can be done; the first sentence is the reason."""
    if run.metadata.ended:
        return [
            "No label looks wrong: for each row, its label is the most probable class.",
            "Systematic errors may go unnoticed. To measure how many labels are right, audit 100 "
            f"rows drawn at random: tamis audit {run.folder}.",
        ]
    return [
        "No suspects yet.",
        "Rows are scored after 250 slots, after 500, then every 1,000, and at the end, since a "
        f"model that has seen few rows doubts every label. The run is {run.state}.",
    ]


def nothing_left(run: Run, rows: int, which: str) -> list[str]:
    """Return why a list of suspects is empty under its filters, and what can be done."""
    if not rows:
        return no_suspects(run)
    decided = run.decisions.decided()
    if which == "open" and all(suspect.id in decided for suspect in run.suspects):
        return [
            f"All done: {count_of(rows, 'suspect')} decided.",
            "A run in progress applies the decisions by itself. To write the corrected table: "
            f"tamis export {run.folder} --format corrected.",
        ]
    if which == "decided" and not decided:
        return ["Nothing is decided yet.", "Set Show to open, and decide by a button or a key."]
    return ["No suspect matches these filters.", "Set classes to any, and scores to 0 and 1."]
