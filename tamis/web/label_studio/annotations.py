"""Which row each annotation of Label Studio labels: webhooks of deletions have no row."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import NamedTuple

from tamis.runs.json_lines import JsonObject, add_line, int_or_none, read_lines
from tamis.web.label_studio.tasks import task_id
from tamis.web.label_studio.webhooks import Change, LabelRecord


class Known(NamedTuple):
    """The row of an annotation, and the label that it chose last."""

    id: str
    label: str
    annotator: str | None


class Annotations:
    """Turns changes of annotations into labels, and remembers annotations in a file.

    An annotation that is deleted, skipped or emptied withdraws its label; where others of the same
    row remain, the newest of these is the row's label then. One that labelled nothing withdraws
    nothing, so that a row which is skipped keeps the label that it had.

    Call `records` for the labels of a change, make these durable, then `forget` it: after a crash
    in between, an annotation is remembered rather than lost. Any thread may call.
    """

    def __init__(self, path: Path, column: str | None = None) -> None:
        self.path, self.column = path, column
        self._known: dict[int, Known] = {}  # oldest first
        self._lock = Lock()
        for line in read_lines(path):
            self._take(line)

    def __len__(self) -> int:
        return len(self._known)

    def records(self, change: Change) -> list[LabelRecord]:
        """Return the labels that follow from a change, and remember the annotation."""
        with self._lock:
            before = self._known.get(change.annotation)
            if change.task is not None and change.label is not None and not change.drop:
                name = task_id(change.task, self.column)
                now = Known(name, change.label, change.annotator)
                if now != before:
                    self._write(change.annotation, now)
                return [LabelRecord(name, change.label, change.annotator, change.time)]
            if change.drop and change.task is not None:
                name = task_id(change.task, self.column)
                return [LabelRecord(name, None, None, change.time)]
            if before is None:
                return []
            found = [LabelRecord(before.id, None, before.annotator, change.time)]
            others = [
                known
                for number, known in self._known.items()
                if known.id == before.id and number != change.annotation
            ]
            return found + [
                LabelRecord(known.id, known.label, known.annotator, change.time)
                for known in others[-1:]
            ]

    def forget(self, change: Change) -> None:
        """Forget an annotation that labels nothing any more, once its withdrawal is durable."""
        with self._lock:
            gone = change.task is None or change.label is None or change.drop
            if gone and change.annotation in self._known:
                self._write(change.annotation, None)

    def _write(self, number: int, known: Known | None) -> None:
        line: JsonObject = {"annotation": number} | (known._asdict() if known else {})
        add_line(self.path, line, sync=True)
        self._take(line)

    def _take(self, line: JsonObject) -> None:
        number, name, label = int_or_none(line.get("annotation")), line.get("id"), line.get("label")
        annotator = line.get("annotator")
        if number is None:
            return
        self._known.pop(number, None)
        if isinstance(name, str) and isinstance(label, str):
            who = annotator if isinstance(annotator, str) else None
            self._known[number] = Known(name, label, who)
