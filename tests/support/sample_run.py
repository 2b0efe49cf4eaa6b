"""A small run to look at: digits whose labels get worse, with all that a run leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tamis import Alarm, Growing, Monitor, Plausible, Replay, Samples, Trainer
from tamis.models import mlp, start
from tamis.review import find_suspects, previewer, write_review_files
from tamis.runs import (
    EstimateLog,
    RunMetadata,
    Suspect,
    add_line,
    write_metadata,
    write_suspects,
    write_suspects_csv,
)
from tamis.streams import Steps, Symmetric, digits

BAD = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'{{ 7*7 }}$x_1$"
"""Text that would be markup, script, template or formula wherever it is not taken for text."""
CLASSES = tuple(f"number {digit}" for digit in range(10))


def make_run(folder: Path, slots: int = 900, seed: int = 0, selector: object = None) -> Trainer:
    """Train on digits, and leave everything in a folder."""
    torch.set_num_threads(1)
    data = digits()
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.5)), slots=slots, rows_per_slot=5,
        seed=seed,
    )  # fmt: skip
    model = start(mlp, data.input_shape, 10, seed)
    tracker = Alarm(10, half_life=400)
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), 0.3), selector or Plausible(),  # type: ignore[arg-type]
        Growing(20_000), k=32, window="average", tracker=tracker, seed=seed,
    )  # fmt: skip
    trainer.validator.classes = 10
    about = RunMetadata("digits", CLASSES, data.input_shape, (), slots, trainer.settings()).begun()
    folder.mkdir(parents=True, exist_ok=True)
    write_metadata(folder, about)
    tracking = EstimateLog(folder, tracker, every=20, confusion_every=100)
    with Monitor(
        folder / "log.jsonl", lambda: trainer.accuracy(data.test_inputs, data.test_labels), 50
    ) as monitor:
        for samples in stream:
            slot = trainer.step(samples)
            monitor.update(slot)
            tracking.update(slot, samples)
    rows = [(samples, [f"scan-{number}" for number in samples.ids.tolist()]) for samples in stream]
    held = trainer.buffer.pool()
    suspects = find_suspects(trainer.averaged, rows, CLASSES, held, rows_per_slot=5)
    write_suspects_csv(folder / "suspects.csv", suspects)
    preview = previewer(data.input_shape)
    view = trainer.averaged
    write_review_files(folder, suspects, rows, CLASSES, preview=preview, view=view, held=held)
    write_metadata(folder, replace(about, ended="done"))
    return trainer


def true_labels(slots: int = 900, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the labels of the run's rows as they were given, and which are right."""
    data = digits()
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.5)), slots=slots, rows_per_slot=5,
        seed=seed,
    )  # fmt: skip
    parts: list[Samples] = list(stream)
    clean = [part.clean for part in parts if part.clean is not None]
    return torch.cat([part.labels for part in parts]), torch.cat(clean)


def make_hostile(folder: Path) -> Path:
    """Make a run in which every text is an attack."""
    write_metadata(
        folder,
        RunMetadata(
            BAD, (BAD, "$\\frac{", "ok"), (2,), (BAD, "b"), 10, {BAD: BAD}, {BAD: BAD}, BAD
        ),
    )
    (folder / "log.jsonl").write_text(
        "".join(
            json.dumps({"slot": slot, "purity": 0.5, "warnings": [BAD] * (slot == 3)}) + "\n"
            for slot in range(10)
        )
    )
    for slot in (4, 9):
        shares = [[0.8, 0.1, 0.1]] * 3
        add_line(
            folder / "tracked.jsonl",
            {"slot": slot, "value": 0.5, "low": 0.4, "high": 0.6, "by_class": [0.1, 0.2, None],
             "confusion": shares},
        )  # fmt: skip
    add_line(folder / "alarms.jsonl", {"slot": 5, "kind": BAD, "before": 0.9, "after": 0.1})
    write_suspects(
        folder,
        [
            Suspect(BAD, BAD, "ok", 0.9, 1, 1, {"columns": {BAD: BAD, "b": 2}}),
            Suspect("text", "ok", BAD, 0.8, 2, 1, {"text": BAD}),
            Suspect("image", "ok", BAD, 0.7, 3, 1, {"image": '"><script>alert(3)</script>'}),
            Suspect("odd", "ok", "ok", 0.6, 4, 1, {"columns": [BAD], "text": 7}),
        ],
    )
    add_line(
        folder / "neighbours.jsonl",
        {
            "id": BAD,
            "neighbours": [{"id": BAD, "label": BAD, "similarity": 1, "preview": {"text": BAD}}],
        },
    )
    add_line(folder / "decisions.jsonl", {"id": BAD, "decision": "keep", "author": BAD})
    return folder
