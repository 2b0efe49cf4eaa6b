"""What every slot of a run was given and came to, one JSON line each, in a file beside the run.

A run that was killed does some slots again: of a slot, the last line counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis.checkpoint import Checkpoints
from tamis.checkpoint.files import DamagedFileError
from tamis.checkpoint.manifest import read_manifest
from tamis.runs import RunFiles
from tamis.runs.json_lines import Tail


class Recorder:
    """Appends lines, each in one write: kill -9 leaves none in memory."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, line: Mapping[str, Any]) -> None:
        os.write(self._handle, (json.dumps(line) + "\n").encode())


@dataclass
class Start:
    """A process that was started, and the first slot that it trained; None before that."""

    number: int
    slot: int | None = None
    slots: int = 0


@dataclass
class Tape:
    """The slots that are in effect, and the processes that trained them."""

    path: Path
    beginning: dict[str, Any] = field(default_factory=dict)
    slots: dict[int, dict[str, Any]] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    lines: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self._tail = Tail(self.path)
        self.refresh()

    def refresh(self) -> None:
        """Read what has been added."""
        for line in self._tail.read():
            if "start" in line:
                self.starts.append(Start(line["start"]))
            elif "schema" in line:  # begun from nothing
                self.beginning, self.slots = line, {}
            elif "end" in line:
                self.ended = True
            else:
                self._add(line)

    def _add(self, line: dict[str, Any]) -> None:
        number, start = line["slot"], self.starts[-1]
        if start.slot is None:
            start.slot = number
            for other in [other for other in self.slots if other >= number]:
                del self.slots[other]
        start.slots += 1
        self.lines += 1
        self.slots[number] = line

    def ids(self) -> list[int]:
        """Return the ids of all rows that arrived, in order."""
        return [id_ for number in sorted(self.slots) for id_ in self.slots[number]["ids"]]

    @property
    def last(self) -> int:
        """The newest slot; -1 before the first."""
        return max(self.slots, default=-1)

    def slot_of_decision(self, line: int) -> int | None:
        """Return the slot at which a line of the decisions took effect, counted from 0."""
        return next((at for at in sorted(self.slots) if self.slots[at]["applied"] > line), None)


def saved_slots(run: Path) -> int:
    """Return how many slots the newest checkpoint of a run holds; 0 where there is none."""
    folder = run / RunFiles.checkpoints
    with suppress(OSError, DamagedFileError):  # one that is removed just now
        newest = max(Checkpoints(folder).generations(), default=0)
        return read_manifest(folder / f"{newest:08}").slot
    return 0
