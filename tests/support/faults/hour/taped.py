"""tamis stream in a process of its own, with a tape; or the unbroken run of such a tape.

The words are

    TAPE stream ADDRESS ...
    TAPE --replay OTHER SENT RUN stream ADDRESS ...

The second trains on the slots of another tape as far as they are in a checkpoint of its run, row by
row from the file of what was sent, and meets each decision at the slot at which the other run did.
So with the audit sample: people work on the one that the other run has drawn.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import time
from typing import Any

import torch

from tamis.cli import train_stream
from tamis.cli.main import main
from tamis.data import Events
from tamis.runs import Decisions, RunFiles
from tamis.runs.json_lines import Tail
from tamis.sources import Schema, SchemaRows
from tamis.sources.protocol import Batch
from tamis.training.recorder import RunRecorder
from tests.support.faults.hour.tape import Recorder, Tape, saved_slots
from tests.support.faults.runs import checksum
from tests.support.wait import wait_until

APPLY, CORRECT, UPDATE = RunRecorder.apply_decisions, RunRecorder.correct, RunRecorder.update
FIRST_INPUTS = train_stream.first_inputs


def record(tape: Recorder) -> None:
    """Write down what each slot is given, and what it comes to."""
    arrived: dict[str, Any] = {}

    def apply(self: RunRecorder) -> None:
        APPLY(self)
        arrived.update(before=len(self.own.decisions.lines), audit_before=bool(self.audit.sample))

    def correct(self: RunRecorder, came: Any, names: Any = None) -> Any:
        ids = (came.samples if isinstance(came, Events) else came).ids.tolist()
        answer = CORRECT(self, came, names)
        arrived.update(ids=ids, known=len(self.own.decisions.lines))
        return answer

    def update(self: RunRecorder, slot: Any, samples: Any = None, names: Any = None) -> None:
        given = dict(arrived)  # which the call in update changes
        UPDATE(self, slot, samples, names)
        held = self.trainer.held()
        tape.add(
            {"slot": slot.number}
            | given
            | {
                "applied": len(self.own.decisions.lines),
                "audit": bool(self.audit.sample),
                "picked": checksum(slot.picked)[:16],
                "held": checksum([held.ids, held.labels])[:16],
                "weights": checksum(self.trainer.model.state_dict())[:16],
            }
        )

    def first_inputs(options: Any, feed: Any) -> Any:
        inputs = FIRST_INPUTS(options, feed)
        if not train_stream.resumes(options):
            tape.add({"inputs": inputs.tolist(), "schema": feed.to_row.schema.to_json()})
        return inputs

    RunRecorder.correct, RunRecorder.update = correct, update  # type: ignore[method-assign]
    RunRecorder.apply_decisions = apply  # type: ignore[method-assign]
    train_stream.first_inputs = first_inputs


def replay(tape: Recorder, other: Tape, sent: Path, run: Path) -> None:
    """Make the next stream read the slots of another tape."""
    record(tape)
    apply, correct, update = RunRecorder.apply_decisions, RunRecorder.correct, RunRecorder.update
    updating = False
    decisions, written = Decisions(run / RunFiles.decisions), 0

    def decide(self: RunRecorder, count: int) -> None:
        nonlocal written
        if count > written:
            decisions.refresh()
            with self.own.decisions.path.open("a") as file:
                for line in decisions.lines[written:count]:
                    file.write(json.dumps(line.to_json()) + "\n")
            written = count

    def take_audit(self: RunRecorder) -> None:
        if not self.audit.sample:
            shutil.copy(run / RunFiles.audit, self.folder)
            self.audit.sample.refresh()
            self.own.refresh()
            self.audit.report()

    def applied(self: RunRecorder) -> None:
        if not updating:
            line = other.slots[self.trainer.slots]
            decide(self, line["before"])
            if line["audit_before"]:
                take_audit(self)
        apply(self)

    def draw_audit(self: RunRecorder) -> None:
        if other.slots[self.trainer.slots - 1]["audit"]:
            take_audit(self)

    def corrected(self: RunRecorder, samples: Any, names: Any = None) -> Any:
        decide(self, other.slots[self.trainer.slots]["known"])
        return correct(self, samples, names)

    def updated(self: RunRecorder, slot: Any, samples: Any = None, names: Any = None) -> None:
        nonlocal updating
        decide(self, other.slots[slot.number]["applied"])
        updating = True
        update(self, slot, samples, names)
        updating = False

    def learn_schema(options: Any, feed: Any) -> Schema:
        wait_until(lambda: saved_slots(run), what="a checkpoint")
        other.refresh()
        tape.add(other.beginning)
        schema = Schema.from_json(other.beginning["schema"])
        feed.to_row = SchemaRows(schema)
        return schema

    RunRecorder.correct, RunRecorder.update = corrected, updated  # type: ignore[method-assign]
    RunRecorder.apply_decisions = applied  # type: ignore[method-assign]
    RunRecorder.draw_audit = draw_audit  # type: ignore[method-assign]
    train_stream.learn_schema = learn_schema
    train_stream.first_inputs = lambda *_: torch.tensor(other.beginning["inputs"])  # type: ignore[assignment]
    train_stream.open_source = lambda *_, **__: Replayed(other, sent, run)  # type: ignore[assignment]


class Replayed:
    """The good records of a tape, slot by slot, as a source."""

    def __init__(self, tape: Tape, sent: Path, run: Path) -> None:
        self.tape = tape
        self.run = run
        self.sent = Tail(sent)
        self.records: dict[int, Any] = {}
        self._stopped = Event()

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield the records of each slot once no kill can undo it."""
        number = 0
        while not self._stopped.is_set():
            saved = saved_slots(self.run)
            self.tape.refresh()
            for about in self.sent.read():
                if about["fault"] is None:
                    self.records[about["id"]] = json.loads(about["line"])
            while number < saved or self.tape.ended:
                if number not in self.tape.slots:
                    return
                ids = self.tape.slots[number]["ids"]
                yield Batch([self.records[id_] for id_ in ids], ids, {"slot": number}, time())
                number += 1
            self._stopped.wait(1)

    def acknowledge(self, offset: Any) -> None:
        """Do nothing."""

    def behind(self) -> int | None:
        return None

    def close(self) -> None:
        self._stopped.set()


def run(output: str, words: list[str]) -> None:
    """Do what the words ask for, in this process and with this file for all that it prints."""
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w") for stream in (1, 2))
    os.environ["COLUMNS"] = "200"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    torch.set_num_threads(1)
    own, words = Recorder(Path(words[0])), words[1:]
    own.add({"start": os.getpid()})
    if words[0] == "--replay":
        replay(own, Tape(Path(words[1])), Path(words[2]), Path(words[3]))
        words = words[4:]
    else:
        record(own)
    sys.exit(main(words))
