"""The audit sample of a run: rows drawn at random, and how many of their labels are right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tamis.checkpoint import write_atomically
from tamis.noise.audit import audit_band
from tamis.runs.decisions import Decision, Decisions
from tamis.runs.json_lines import JsonObject, Tail, int_or_none
from tamis.runs.layout import RunFiles


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row of the sample, with the label that it came with, by name.

    `row` is the number of the sample, and `preview` what a person sees of the row. There is no
    score, and no label is suggested: both would sway who audits.
    """

    id: str
    given: str
    row: int | None = None
    preview: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def suggested(self) -> None:
        """None, as decisions record it."""
        return None

    def to_json(self) -> JsonObject:
        """Return the row as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> AuditRow | None:
        """Read a JSON object; None where it is not a row of a sample."""
        given, preview = line.get("given"), line.get("preview")
        if "id" not in line or not isinstance(given, str):
            return None
        preview = preview if isinstance(preview, dict) else {}
        return cls(str(line["id"]), given, int_or_none(line.get("row")), preview)


class AuditTally(NamedTuple):
    """How many labels of a sample were found right and wrong, and the rows of the sample."""

    right: int
    wrong: int
    rows: int

    @property
    def audited(self) -> int:
        """Rows that were decided about."""
        return self.right + self.wrong

    @property
    def text(self) -> str:
        """What follows for all labels, as a sentence; empty before the first row."""
        if not self.audited:
            return ""
        _, low, high = audit_band(self.right, self.wrong)
        found = f"{self.right} of {self.audited} audited labels are right"
        return f"{found}: between {low:.0%} and {high:.0%} of all (90% band)."


class AuditSample:
    """The rows of a run's sample, in the order in which they were drawn."""

    def __init__(self, folder: Path) -> None:
        self._tail = Tail(folder / RunFiles.audit)
        self._rows: dict[str, AuditRow] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[AuditRow]:
        return iter(self._rows.values())

    def get(self, name: str) -> AuditRow | None:
        """Return the row of an id."""
        return self._rows.get(name)

    def refresh(self) -> bool:
        """Read the file if it has changed, and return whether it had."""
        new = self._tail.read()
        if self._tail.reset:
            self._rows = {}
        rows = (AuditRow.from_json(line) for line in new)
        self._rows |= {row.id: row for row in rows if row}
        return bool(new) or self._tail.reset

    def tally(self, decisions: Decisions) -> AuditTally:
        """Count what people decided about the rows of the sample."""
        found = [was_right(decisions.of(row.id)) for row in self]
        return AuditTally(found.count(True), found.count(False), len(found))


def was_right(decision: Decision | None) -> bool | None:
    """Return whether the given label was right by a decision; None where that is open.

    It was if it is kept, and was not if the row is relabelled or dropped.
    """
    if decision is None or not decision.decided:
        return None
    return decision.decision == "keep" or (
        decision.decision == "relabel" and decision.label == decision.given
    )


def write_audit(folder: Path, rows: Iterable[AuditRow]) -> None:
    """Write audit.jsonl into a run's folder."""
    lines = (json.dumps(row.to_json(), allow_nan=False) + "\n" for row in rows)
    write_atomically(folder / RunFiles.audit, "".join(lines).encode(), private=True)
