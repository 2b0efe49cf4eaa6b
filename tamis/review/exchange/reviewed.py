"""One suspect with what was decided about it, as it travels between tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from tamis.errors import TamisError
from tamis.runs import Action, Decision, Decisions, RunFiles, SuspectIndex, read_metadata
from tamis.runs.decisions import ACTIONS
from tamis.runs.shown import whole


class UnreadableFileError(TamisError, ValueError):
    """A file that is not what it should be, in one sentence."""


@dataclass(frozen=True)
class Reviewed:
    """A suspect, and the decision about it where there is one.

    `label` is the right label where the decision is to relabel. `show` is what a person sees of the
    row; it goes to tools that show rows, and does not come back from them.
    """

    id: str
    given: str | None = None
    suggested: str | None = None
    score: float | None = None
    row: int | None = None
    slot: int | None = None
    decision: Action | None = None
    label: str | None = None
    author: str = ""
    time: str = ""
    show: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def cells(self) -> dict[str, Any]:
        """Return what stands in a table."""
        cells = asdict(self)
        del cells["show"]
        return cells

    @property
    def final(self) -> str | None:
        """Return the label that the row is to have, None where it is to have none."""
        if self.decision == "drop":
            return None
        return self.label if self.decision == "relabel" else self.given


COLUMNS = tuple(part.name for part in fields(Reviewed) if part.name != "show")


def from_cells(cells: Mapping[str, Any]) -> Reviewed:
    """Read a row of a table that anybody may have edited.

    Who wrote a label and no decision has decided: to relabel, or to keep where it is as given.
    """
    name = as_text(cells.get("id"))
    if name is None:
        raise UnreadableFileError("There is a row without an id.")
    given, label = as_text(cells.get("given")), as_text(cells.get("label"))
    word = as_text(cells.get("decision"))
    if word is None and label is not None:
        word = "keep" if label == given else "relabel"
    if word is not None and (word not in ACTIONS or word == "undo"):
        raise UnreadableFileError(
            f"{word[:40]!r} is no decision: it is keep, relabel, drop or skip."
        )
    if word == "relabel" and label is None:
        raise UnreadableFileError(f"Row {name[:40]!r} is to be relabelled, and has no label.")
    try:
        score = None if cells.get("score") in (None, "") else float(cells["score"])
        row, slot = (as_number(cells.get(key)) for key in ("row", "slot"))
    except (TypeError, ValueError):
        raise UnreadableFileError(
            f"Row {name[:40]!r} has a score, row or slot that is no number."
        ) from None
    return Reviewed(
        name,
        given,
        as_text(cells.get("suggested")),
        score,
        row,
        slot,
        next((known for known in ACTIONS if known == word), None),
        label if word == "relabel" else None,
        as_text(cells.get("author")) or "",
        as_text(cells.get("time")) or "",
    )


def as_text(value: object) -> str | None:
    """Take anything that is there for text, and nothing for nothing."""
    return None if value is None or value == "" or value != value else str(value)


def as_number(value: object) -> int | None:
    """Read a whole number, if one is there."""
    if isinstance(value, str):
        return None if value == "" else int(value)
    if isinstance(value, float):
        return None if value != value else int(value)
    return whole(value)


def read_run(folder: Path, which: str = "all") -> tuple[list[Reviewed], list[str]]:
    """Return the suspects of a run with decisions, and the names of its classes.

    `which`: all, open, or settled. A decision about a row that is no suspect any more is there too.
    """
    index, decisions = SuspectIndex(folder), Decisions(folder / RunFiles.decisions)
    force = decisions.in_force()
    found = []
    for suspect in index.read(index.spines):
        known = {
            key: getattr(suspect, key)
            for key in ("id", "given", "suggested", "score", "row", "slot", "show")
        }
        found.append(Reviewed(**known, **decided(force.get(suspect.id))))
    found += [
        Reviewed(name, decision.given, row=decision.row, **decided(decision))
        for name, decision in force.items()
        if name not in index
    ]
    if which != "all":
        settled = {name for name, decision in force.items() if decision.settled}
        found = [one for one in found if (one.id in settled) == (which == "settled")]
    classes = list(read_metadata(folder).classes)
    named = {label for one in found for label in (one.given, one.suggested, one.label) if label}
    return found, classes + sorted(named - set(classes))


def decided(decision: Decision | None) -> dict[str, Any]:
    """Return what is known of a decision."""
    if decision is None:
        return {}
    return {key: getattr(decision, key) for key in ("decision", "label", "author", "time")}


class Taken(NamedTuple):
    """How many decisions were new, in force already, and about rows that nobody knows."""

    new: int
    same: int
    strange: int


def take_in(folder: Path, reviewed: Iterable[Reviewed], author: str = "") -> Taken:
    """Add the decisions of another tool to those of a run; what is in force already is not added.

    Labels must be classes of the run, and rows its suspects, or decided before.
    """
    index, decisions = SuspectIndex(folder), Decisions(folder / RunFiles.decisions)
    classes = set(read_metadata(folder).classes) or index.labels
    new: list[Decision] = []
    same = strange = 0
    for one in reviewed:
        if one.decision is None:
            continue
        spine, before = index.spine(one.id), decisions.of(one.id)
        unknown = one.decision == "relabel" and classes and one.label not in classes
        if (spine is None and before is None) or unknown:
            strange += 1
        elif before and (before.decision, before.label) == (one.decision, one.label):
            same += 1
        else:
            given = spine.given if spine else before.given if before else one.given
            row = spine.row if spine else before.row if before else one.row
            who = one.author or author
            new.append(Decision(one.id, one.decision, one.label, given, row, who, one.time))
    for number, decision in enumerate(new, 1):
        decisions.decide(decision, sync=number == len(new))
    return Taken(len(new), same, strange)
