"""What people decided about labels: one line each, added at once, never changed.

Undo is another line. The newest decision about a row that was not undone is in force.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from tamis.runs.json_lines import Line, Tail, add_line
from tamis.runs.metadata import now
from tamis.runs.shown import whole

Action = Literal["keep", "relabel", "drop", "skip", "undo"]
ACTIONS: tuple[Action, ...] = get_args(Action)
LONGEST_AUTHOR = 100


@dataclass(frozen=True)
class Decision:
    """One line of the file.

    `label` is the right label, by name, where the decision is to relabel. `given` is the label that
    the row came with, `previous` what was in force before: the word and the label, if any.
    """

    id: str
    decision: Action
    label: str | None = None
    given: str | None = None
    row: int | None = None
    author: str = ""
    time: str = ""
    previous: tuple[Action, str | None] | None = None

    @property
    def settled(self) -> bool:
        """Say whether anything was decided: who skips leaves it open."""
        return self.decision in ("keep", "relabel", "drop")

    def to_line(self) -> Line:
        """Return it as an object of JSON."""
        return asdict(self)


def read_decision(line: Line) -> Decision | None:
    """Read a line; None where it is no decision."""
    word, label = line.get("decision"), line.get("label")
    if word not in ACTIONS or not isinstance(line.get("id"), str | int):
        return None
    if word == "relabel" and label is None:
        return None
    before = line.get("previous")
    known = isinstance(before, list | tuple) and len(before) == 2 and before[0] in ACTIONS
    return Decision(
        str(line["id"]),
        word,
        text_or_none(label) if word == "relabel" else None,
        text_or_none(line.get("given")),
        whole(line.get("row")),
        str(line.get("author") or ""),
        str(line.get("time") or ""),
        (before[0], text_or_none(before[1])) if known and before else None,
    )


def text_or_none(value: object) -> str | None:
    """Take anything that is there for text."""
    return None if value is None else str(value)


class Decisions:
    """All decisions in a file, followed as it grows: who looks again sees what others decided."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Decision] = []
        self._tail = Tail(path)
        self._stacks: dict[str, list[Decision]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self.in_force())

    def refresh(self) -> set[str]:
        """Read on, and name the rows about which there is something new."""
        if not self._tail.changed():
            return set()
        new = self._tail.read()
        touched = set(self._stacks) if self._tail.anew else set()
        if self._tail.anew:
            self.lines, self._stacks = [], {}
        for line in new:
            decision = read_decision(line)
            if decision:
                self._take(decision)
                touched.add(decision.id)
        return touched

    def of(self, name: str) -> Decision | None:
        """Return what is in force for a row, if anything is."""
        stack = self._stacks.get(name)
        return stack[-1] if stack else None

    def in_force(self) -> dict[str, Decision]:
        """Return what is in force, by id."""
        return {name: stack[-1] for name, stack in self._stacks.items() if stack}

    def decide(self, decision: Decision, sync: bool = True) -> Decision:
        """Add a decision to the file, and return it as it stands there, once the disk has it.

        Who adds many at once waits for the disk with the last one (`sync`).

        Whoever decides at the same time waits for the other, here or in another process, so that no
        line is lost and each tells what was in force before it.
        """
        with locked(self.path):
            self.refresh()
            before = self.of(decision.id)
            written = replace(
                decision,
                author=clean_author(decision.author),
                time=decision.time or now(),
                previous=(before.decision, before.label) if before else None,
            )
            add_line(self.path, written.to_line(), sync)
            self.refresh()
        return written

    def _take(self, decision: Decision) -> None:
        self.lines.append(decision)
        stack = self._stacks.setdefault(decision.id, [])
        if decision.decision != "undo":
            stack.append(decision)
        elif stack:
            stack.pop()


def clean_author(name: str) -> str:
    """Leave out what is no part of a name, and most of a very long one."""
    return "".join(letter for letter in name if letter.isprintable()).strip()[:LONGEST_AUTHOR]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock beside a file. It ends with the process, so that none is left by a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


def lock(handle: int) -> None:
    """Wait until nobody else holds it."""
    module: Any
    if os.name == "nt":
        import msvcrt as module

        module.locking(handle, module.LK_LOCK, 1)
    else:
        import fcntl as module

        module.flock(handle, module.LOCK_EX)
