"""What stands where there are no suspects: why, and what to do next."""

from __future__ import annotations

from tamis.runs import Run
from tamis.web.words import count_of


def no_suspects(run: Run) -> list[str]:
    """Return why a run has no suspects, and what can be done; the first sentence is the reason."""
    if run.metadata.ended:
        return [
            "No label looks wrong: no row has another class that is likelier than its label.",
            "Where wrong labels agree with each other, none may stand out. To measure how many of "
            f"all labels are right, audit 100 rows drawn at random: tamis audit {run.folder}.",
        ]
    return [
        "No suspects yet.",
        "Rows are scored first after 250 slots, then after 500 and every 1,000, and at the end: a "
        f"model that has seen little doubts everything. The run is {run.state}.",
    ]


def nothing_left(run: Run, rows: int, which: str) -> list[str]:
    """Return why a list of suspects is empty under its filters, and what can be done."""
    if not rows:
        return no_suspects(run)
    decided = run.decisions.decided()
    if which == "open" and all(suspect.id in decided for suspect in run.suspects):
        return [
            f"All done: {count_of(rows, 'suspect')} decided.",
            "A run in progress takes the decisions in by itself. To write the table with them "
            f"applied: tamis export {run.folder} --format corrected.",
        ]
    if which == "decided" and not decided:
        return ["Nothing is decided yet.", "Choose Show: open, and decide by a button or a key."]
    return ["No suspect fits these filters.", "Choose any class, and scores from 0 to 1."]
