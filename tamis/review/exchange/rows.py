"""A row as tools exchange it: the suspect, if it is one, and the decision, if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tamis.errors import TamisError
from tamis.runs import (
    AuditSample,
    Decision,
    Decisions,
    RunFiles,
    Suspect,
    SuspectIndex,
    read_metadata,
)
from tamis.runs.decisions import ACTIONS
from tamis.runs.json_lines import int_or_none

COLUMNS = (
    "id",
    "given",
    "suggested",
    "score",
    "row",
    "slot",
    "decision",
    "label",
    "author",
    "time",
    "annotator",
)


class UnreadableFileError(TamisError, ValueError):
    """A file that is not what it should be, in one sentence."""


@dataclass(frozen=True)
class ReviewedRow:
    """A suspect, and the decision about it.

    A row that was decided and is no longer a suspect has a decision only. Previews go to tools that
    show rows, and do not come back from them.
    """

    id: str
    suspect: Suspect | None = None
    decision: Decision | None = None

    def cells(self) -> dict[str, Any]:
        """Return the row of a table, by `COLUMNS`; None where a cell is empty."""
        known: dict[str, Any] = dict.fromkeys(COLUMNS)
        known["author"] = known["time"] = ""
        for record in (self.decision, self.suspect):
            if record is not None:
                known |= {key: value for key, value in record.to_json().items() if key in known}
        return known

    @property
    def final(self) -> str | None:
        """Return the label that the row is to have, None where it is to have none."""
        if self.decision and self.decision.decision == "drop":
            return None
        if self.decision and self.decision.decision == "relabel":
            return self.decision.label
        given: str | None = self.cells()["given"]
        return given

    @property
    def preview(self) -> Mapping[str, Any]:
        """Return the preview of the suspect, empty where there is none."""
        return self.suspect.preview if self.suspect else {}


def from_cells(cells: Mapping[str, Any]) -> ReviewedRow:
    """Read a row of a table that anybody may have edited.

    A label without a decision is one: to relabel, or to keep where it is the given label.
    """
    name = text_or_none(cells.get("id"))
    if name is None:
        raise UnreadableFileError("There is a row without an id.")
    given, label = text_or_none(cells.get("given")), text_or_none(cells.get("label"))
    suggested, action = text_or_none(cells.get("suggested")), text_or_none(cells.get("decision"))
    if action is None and label is not None:
        action = "keep" if label == given else "relabel"
    if action is not None and (action not in ACTIONS or action == "undo"):
        raise UnreadableFileError(
            f"{action[:40]!r} is not a decision: it is keep, relabel, drop or skip."
        )
    if action == "relabel" and label is None:
        raise UnreadableFileError(f"Row {name[:40]!r} is to be relabelled, and has no label.")
    try:
        score = None if cells.get("score") in (None, "") else float(cells["score"])
        row, slot = (read_int(cells.get(key)) for key in ("row", "slot"))
    except (TypeError, ValueError):
        raise UnreadableFileError(
            f"Row {name[:40]!r} has a score, row or slot that is not a number."
        ) from None
    suspect = None
    if suggested is not None and score is not None:
        giver = text_or_none(cells.get("annotator")) or ""
        suspect = Suspect(name, given or "", suggested, score, row, slot, annotator=giver)
    decision = Decision.from_json(
        {"id": name, "decision": action, "label": label, "given": given, "row": row}
        | {key: text_or_none(cells.get(key)) for key in ("author", "time")}
    )
    return ReviewedRow(name, suspect, decision)


def text_or_none(value: object) -> str | None:
    """Return a value as text, and None for an empty cell or NaN."""
    return None if value is None or value == "" or value != value else str(value)


def read_int(value: object) -> int | None:
    """Return an integer, and None for an empty cell or NaN."""
    if isinstance(value, str):
        return None if value == "" else int(value)
    if isinstance(value, float):
        return None if value != value else int(value)
    return int_or_none(value)


def read_run(folder: Path, which: str = "all") -> tuple[list[ReviewedRow], list[str]]:
    """Return the suspects of a run with decisions, and the names of its classes.

    `which`: all, open, or decided. Decisions about rows that are no longer suspects are included.
    """
    index, decisions = SuspectIndex(folder), Decisions(folder / RunFiles.decisions)
    in_force = decisions.in_force()
    rows = [
        ReviewedRow(suspect.id, suspect, in_force.get(suspect.id))
        for suspect in index.read(list(index))
    ]
    rows += [
        ReviewedRow(name, None, decision)
        for name, decision in in_force.items()
        if name not in index
    ]
    if which != "all":
        decided = decisions.decided()
        rows = [row for row in rows if (row.id in decided) == (which == "decided")]
    classes = list(read_metadata(folder).classes)
    named = {
        label
        for row in rows
        for key, label in row.cells().items()
        if key in ("given", "suggested", "label") and label
    }
    return rows, classes + sorted(named - set(classes))


class ImportResult(NamedTuple):
    """How many decisions were added, were in force already, and fit no row or class of the run."""

    added: int
    unchanged: int
    unknown: int


def import_decisions(folder: Path, rows: Iterable[ReviewedRow], author: str = "") -> ImportResult:
    """Add the decisions of another tool to those of a run, unless they are in force already.

    Labels must be classes of the run, or become such where it takes new ones, and rows its
    suspects, of its audit sample, or decided before. `author` is who decided where a row names
    nobody.
    """
    index, decisions = SuspectIndex(folder), Decisions(folder / RunFiles.decisions)
    metadata, sample = read_metadata(folder), AuditSample(folder)
    classes = set(metadata.classes) or index.labels
    new: list[Decision] = []
    unchanged = unknown = 0
    for made in (row.decision for row in rows if row.decision):
        known = index.get(made.id) or sample.get(made.id) or decisions.of(made.id)
        before = decisions.of(made.id)
        no_class = made.decision == "relabel" and classes and made.label not in classes
        no_class = no_class and not metadata.takes(made.label or "")
        if known is None or no_class:
            unknown += 1
        elif before and (before.decision, before.label) == (made.decision, made.label):
            unchanged += 1
        else:
            new.append(
                Decision(
                    made.id,
                    made.decision,
                    made.label,
                    known.given,
                    known.row,
                    made.author or author,
                    made.time,
                    suggested=known.suggested,
                )
            )
    for number, decision in enumerate(new, 1):
        decisions.decide(decision, sync=number == len(new))
    return ImportResult(len(new), unchanged, unknown)
