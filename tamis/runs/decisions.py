"""What people decided about labels: an append-only file, one decision a line.

Undo is another line. In force is the newest decision about a row that was not undone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from tamis.checkpoint import locked
from tamis.runs.json_lines import JsonObject, Tail, add_line, int_or_none
from tamis.runs.metadata import now

Action = Literal["keep", "relabel", "drop", "skip", "undo"]
ACTIONS: tuple[Action, ...] = get_args(Action)
LONGEST_AUTHOR = 100


@dataclass(frozen=True)
class Decision:
    """One line of the file.

    `label` is the right label, by name, where the decision is to relabel. `given` is the label that
    the row came with, `suggested` the one that was suggested in its place when this was decided;
    `previous` is the action and the label that were in force before, if any.
    """

    id: str
    decision: Action
    label: str | None = None
    given: str | None = None
    row: int | None = None
    author: str = ""
    time: str = ""
    previous: tuple[Action, str | None] | None = None
    suggested: str | None = None

    @property
    def decided(self) -> bool:
        """Whether the label is decided: a skip leaves it open."""
        return self.decision in ("keep", "relabel", "drop")

    def to_json(self) -> JsonObject:
        """Return the decision as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: JsonObject) -> Decision | None:
        """Read a JSON object; None where it is not a decision."""
        action, label = line.get("decision"), line.get("label")
        if action not in ACTIONS or not isinstance(line.get("id"), str | int):
            return None
        if action == "relabel" and label is None:
            return None
        before = line.get("previous")
        known = isinstance(before, list | tuple) and len(before) == 2 and before[0] in ACTIONS
        return cls(
            str(line["id"]),
            action,
            text_or_none(label) if action == "relabel" else None,
            text_or_none(line.get("given")),
            int_or_none(line.get("row")),
            str(line.get("author") or ""),
            str(line.get("time") or ""),
            (before[0], text_or_none(before[1])) if known and before else None,
            text_or_none(line.get("suggested")),
        )


def text_or_none(value: object) -> str | None:
    """Return a value as text, and None as it is."""
    return None if value is None else str(value)


class Decisions:
    """All decisions in a file. `refresh` reads those that others have added since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Decision] = []
        self._tail = Tail(path)
        self._stacks: dict[str, list[Decision]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self.in_force())

    def refresh(self) -> set[str]:
        """Read what the file has gained, and return the ids of the rows concerned."""
        if not self._tail.changed():
            return set()
        new = self._tail.read()
        touched = set(self._stacks) if self._tail.reset else set()
        if self._tail.reset:
            self.lines, self._stacks = [], {}
        for line in new:
            decision = Decision.from_json(line)
            if decision:
                self._add(decision)
                touched.add(decision.id)
        return touched

    def of(self, name: str) -> Decision | None:
        """Return the decision in force for a row, if there is one."""
        stack = self._stacks.get(name)
        return stack[-1] if stack else None

    def in_force(self) -> dict[str, Decision]:
        """Return the decisions in force, by id."""
        return {name: stack[-1] for name, stack in self._stacks.items() if stack}

    def named(self) -> set[str]:
        """Return the ids of all rows that a line names, those undone among them."""
        return set(self._stacks)

    def decided(self) -> set[str]:
        """Return the ids of the rows that have been kept, relabelled or dropped."""
        return {name for name, found in self.in_force().items() if found.decided}

    def decide(self, decision: Decision, sync: bool = True) -> Decision:
        """Append a decision, and return it as written; `sync` waits for the disk.

        A lock orders the writers, in this process and in others: no line is lost, and each records
        what was in force before it.
        """
        with locked(self.path.with_name(self.path.name + ".lock")):
            self.refresh()
            before = self.of(decision.id)
            written = replace(
                decision,
                author=clean_author(decision.author),
                time=decision.time or now(),
                previous=(before.decision, before.label) if before else None,
            )
            add_line(self.path, written.to_json(), sync)
            self.refresh()
        return written

    def _add(self, decision: Decision) -> None:
        self.lines.append(decision)
        stack = self._stacks.setdefault(decision.id, [])
        if decision.decision != "undo":
            stack.append(decision)
        elif stack:
            stack.pop()


def clean_author(name: str) -> str:
    """Return a name without control characters, cut to 100 characters."""
    return "".join(letter for letter in name if letter.isprintable()).strip()[:LONGEST_AUTHOR]
