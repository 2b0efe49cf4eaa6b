"""What decisions change in the rows of a table, matched by id and by the label that was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tamis.runs import Decision

DECISION, ORIGINAL = "tamis_decision", "tamis_original_label"
"""Columns that are added: what was decided, and the label before where it was changed."""


class Change(NamedTuple):
    """What becomes of a row: the word for it, its label then, and the one before if another."""

    word: str
    label: str
    original: str

    @property
    def removed(self) -> bool:
        """Whether the row is to be left out."""
        return self.word == "removed"

    @property
    def relabelled(self) -> bool:
        """Whether the row has another label."""
        return self.word == "relabelled"


class Changes:
    """Looks up the decision about each row of a table, and counts what came of it.

    A row is found by its id; with `numbered`, by its number in the table as well, which keeps rows
    of one id apart, and needs the table to be the one that was trained on. A decision about a label
    that the row does not have any more changes nothing; `outdated` counts these.
    """

    def __init__(self, decisions: Mapping[str, Decision], *, numbered: bool) -> None:
        self.decisions = {name: found for name, found in decisions.items() if found.decided}
        self.numbered = numbered
        self.rows = 0
        self.counts: Counter[str] = Counter()
        self.outdated = 0
        self._met: set[str] = set()

    def of(self, row: int, name: str, label: str) -> Change | None:
        """Return what becomes of a row; None where nobody has decided about it."""
        self.rows += 1
        found = self.decisions.get(name)
        if found is None or (self.numbered and found.row not in (None, row)):
            return None
        self._met.add(name)
        if not label or found.given not in (None, label):
            self.outdated += 1
            return None
        if found.decision == "drop":
            change = Change("removed", label, "")
        elif found.decision == "relabel" and found.label is not None and found.label != label:
            change = Change("relabelled", found.label, label)
        else:
            change = Change("kept", label, "")
        self.counts[change.word] += 1
        return change

    @property
    def unmatched(self) -> list[str]:
        """Ids that were decided about and are in no row."""
        return [name for name in self.decisions if name not in self._met]


def added_names(names: Iterable[str]) -> tuple[str, str]:
    """Return names for the two columns that are added, which the table does not have yet.

    >>> added_names(["a", "tamis_decision"])
    ('tamis_decision (2)', 'tamis_original_label')
    """
    known = set(names)

    def free(name: str) -> str:
        found, number = name, 2
        while found in known:
            found, number = f"{name} ({number})", number + 1
        return found

    return free(DECISION), free(ORIGINAL)
