"""Suspects as a person is to see them: one JSON line each, worst first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.data import Samples
from tamis.runs.json_lines import Line
from tamis.runs.layout import RunFiles

MOST = 50_000
"""Suspects written down at the most: nobody reviews more, and CSV has them all."""
Rows = Iterable[tuple[Samples, Sequence[str]]]


@dataclass(frozen=True)
class Shown:
    """A suspect with its labels by name, and what to show of it."""

    id: str
    given: str
    suggested: str
    score: float
    row: int | None = None
    slot: int | None = None
    show: Mapping[str, Any] = field(default_factory=dict)

    def to_line(self) -> Line:
        """Return it as an object of JSON."""
        return {
            "id": self.id, "row": self.row, "given": self.given, "suggested": self.suggested,
            "score": self.score, "slot": self.slot, "show": dict(self.show),
        }  # fmt: skip

    @classmethod
    def of(cls, line: Line) -> Shown | None:
        """Read a line; None where it is no suspect."""
        score, show = line.get("score"), line.get("show")
        if "id" not in line or not isinstance(score, int | float):
            return None
        return cls(
            str(line["id"]),
            str(line.get("given", "")),
            str(line.get("suggested", "")),
            float(score),
            whole(line.get("row")),
            whole(line.get("slot")),
            show if isinstance(show, dict) else {},
        )


def whole(value: object) -> int | None:
    """Take a whole number for one, and anything else for none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def write_shown(folder: Path, suspects: Iterable[Shown]) -> None:
    """Put the suspects into the run's folder, in place of those that were there."""
    write_atomically(folder / RunFiles.suspects, b"".join(encode(suspects)))


def encode(suspects: Iterable[Shown]) -> Iterator[bytes]:
    """Write suspects as lines."""
    for suspect in suspects:
        yield (json.dumps(suspect.to_line(), allow_nan=False) + "\n").encode()
