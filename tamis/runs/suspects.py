"""A suspect: a row whose label looks wrong. One record, as JSON lines and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.runs.json_lines import JsonObject, int_or_none
from tamis.runs.layout import RunFiles
from tamis.runs.spreadsheet import disarm, rearm

COLUMNS = ("id", "given", "suggested", "score")
"""Columns of suspects.csv; where annotators are known, theirs comes after them."""
ANNOTATOR = "annotator"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row whose label the model doubts, with labels by name.

    `score` is the probability that the label is wrong, calibrated where enough rows were held.
    `row` is the number of the sample and `slot` the slot it arrived in; both may be unknown.
    `preview` is what a person sees of the row, and `probabilities` are those of the likeliest
    classes by the model. Both are empty in an index, and not compared. `annotator` names who gave
    the label, and is empty where that is not known.
    """

    id: str
    given: str
    suggested: str
    score: float
    row: int | None = None
    slot: int | None = None
    preview: Mapping[str, Any] = field(default_factory=dict, compare=False)
    probabilities: Mapping[str, float] = field(default_factory=dict, compare=False)
    annotator: str = ""

    def to_json(self) -> JsonObject:
        """Return the suspect as a JSON object."""
        found = {
            "id": self.id, "row": self.row, "given": self.given, "suggested": self.suggested,
            "score": self.score, "slot": self.slot, "preview": dict(self.preview),
            "probabilities": dict(self.probabilities),
        }  # fmt: skip
        return found | ({ANNOTATOR: self.annotator} if self.annotator else {})

    @classmethod
    def from_json(cls, line: JsonObject) -> Suspect | None:
        """Read a JSON object; None where it is not a suspect."""
        score, preview, shares = (line.get(key) for key in ("score", "preview", "probabilities"))
        if "id" not in line or not isinstance(score, int | float):
            return None
        return cls(
            str(line["id"]),
            str(line.get("given", "")),
            str(line.get("suggested", "")),
            float(score),
            int_or_none(line.get("row")),
            int_or_none(line.get("slot")),
            preview if isinstance(preview, dict) else {},
            {
                str(name): float(share)
                for name, share in (shares if isinstance(shares, dict) else {}).items()
                if isinstance(share, int | float) and 0 <= share <= 1
            },
            str(line.get(ANNOTATOR) or ""),
        )


def write_suspects(folder: Path, suspects: Iterable[Suspect]) -> None:
    """Write suspects.jsonl into a run's folder, in place of an older one."""
    lines = (json.dumps(suspect.to_json(), allow_nan=False) + "\n" for suspect in suspects)
    write_atomically(folder / RunFiles.suspects, "".join(lines).encode(), private=True)


def write_suspects_csv(path: Path, suspects: Iterable[Suspect]) -> None:
    """Write suspects as CSV: id, given and suggested label, score, and who gave the label."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    listed = list(suspects)
    known = any(suspect.annotator for suspect in listed)
    writer.writerow([*COLUMNS, *([ANNOTATOR] if known else [])])
    for suspect in listed:
        texts = [disarm(text) for text in (suspect.id, suspect.given, suspect.suggested)]
        giver = [disarm(suspect.annotator)] if known else []
        writer.writerow([*texts, f"{suspect.score:.6f}", *giver])
    write_atomically(path, out.getvalue().encode(), private=True)


def read_suspects_csv(path: Path) -> Iterator[Suspect]:
    """Read suspects.csv; rows that are not suspects are skipped."""
    with path.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            try:
                name, given, suggested = (rearm(cells[key]) for key in COLUMNS[:3])
                giver = rearm(cells.get(ANNOTATOR) or "")
                yield Suspect(name, given, suggested, float(cells["score"]), annotator=giver)
            except (KeyError, TypeError, ValueError):
                continue
