"""Predictions beside labels, counted by class: of a test table, or of what people decided."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.runs.decisions import Decision
from tamis.runs.json_lines import JsonObject
from tamis.runs.layout import RunFiles


@dataclass(frozen=True)
class ClassScore:
    """How well one class is predicted; None where there is nothing to divide by.

    `rows` have its label, `predicted` are predicted as it, `right` are both.
    """

    name: str
    rows: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        """Share of its predictions that are right."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Share of its rows that are predicted."""
        return self.right / self.rows if self.rows else None


@dataclass(frozen=True)
class ConfusionCounts:
    """How many rows of each label were predicted as which class, by names; zeros are left out.

    `name` is the table that was predicted, empty for the decisions of people.
    """

    counts: Mapping[tuple[str, str], int]
    name: str = ""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], name: str = "") -> ConfusionCounts:
        """Count pairs of a label and a prediction."""
        return cls(dict(Counter(pairs)), name)

    @classmethod
    def of_decisions(cls, decisions: Iterable[Decision]) -> ConfusionCounts:
        """Count what people decided beside what was suggested before: no row dropped or skipped."""
        pairs = []
        for made in decisions:
            label = made.label if made.decision == "relabel" else made.given
            if made.decision in ("keep", "relabel") and label and made.suggested:
                pairs.append((label, made.suggested))
        return cls.of(pairs)

    @property
    def rows(self) -> int:
        """Rows that were compared."""
        return sum(self.counts.values())

    @property
    def right(self) -> int:
        """Rows whose label was predicted."""
        return sum(count for (label, predicted), count in self.counts.items() if label == predicted)

    def by_class(self) -> list[ClassScore]:
        """Return the score of every class that occurs, the most frequent label first."""
        rows: Counter[str] = Counter()
        predictions: Counter[str] = Counter()
        for (label, predicted), count in self.counts.items():
            rows[label] += count
            predictions[predicted] += count
        names = sorted({*rows, *predictions}, key=lambda name: (-rows[name], name))
        return [
            ClassScore(name, rows[name], predictions[name], self.counts.get((name, name), 0))
            for name in names
        ]

    def confused(self) -> list[tuple[str, str, int]]:
        """Return label, prediction and count of all that is wrong, the most frequent first."""
        wrong = [(*pair, count) for pair, count in self.counts.items() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda entry: (-entry[2], entry[:2]))

    def to_json(self) -> JsonObject:
        """Return the counts as a JSON object."""
        return {"name": self.name, "counts": [[*pair, n] for pair, n in self.counts.items()]}

    @classmethod
    def from_json(cls, found: object) -> ConfusionCounts | None:
        """Read a JSON object; None where it holds no counts."""
        entries = found.get("counts") if isinstance(found, dict) else None
        try:
            counts = {(str(label), str(predicted)): int(n) for label, predicted, n in entries or ()}
        except (TypeError, ValueError):
            return None
        if not counts or min(counts.values()) < 1 or not isinstance(found, dict):
            return None
        return cls(counts, str(found.get("name") or ""))


def write_test_counts(folder: Path, found: ConfusionCounts) -> None:
    """Write the predictions of a test table into a run's folder."""
    content = json.dumps(found.to_json(), ensure_ascii=False) + "\n"
    write_atomically(folder / RunFiles.test, content.encode())


class TestCounts:
    """The predictions of a test table, read again when the file has changed."""

    __test__ = False  # for pytest

    def __init__(self, folder: Path) -> None:
        self.path = folder / RunFiles.test
        self.found: ConfusionCounts | None = None
        self._seen: tuple[int, int] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it is another than before, and return whether it is."""
        try:
            about = self.path.stat()
            seen = (about.st_mtime_ns, about.st_ino)
            if seen == self._seen:
                return False
            found = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            seen, found = None, None
        changed, self._seen = seen != self._seen, seen
        self.found = ConfusionCounts.from_json(found)
        return changed
