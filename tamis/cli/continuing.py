"""The trainer of a run that a command has left, built again as the command built it."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tamis.checkpoint import Checkpoints, describe
from tamis.checkpoint.manifest import differences
from tamis.cli.building import build_selector, build_trainer, scale_of
from tamis.cli.stream_classes import limit_of
from tamis.cli.train_stream import room_of, stream_trainer
from tamis.cli.train_table import table_trainer
from tamis.distributed import RankCheckpoints
from tamis.errors import UsageError
from tamis.runs import RunFiles, RunMetadata, read_metadata
from tamis.sources import Rejects, Schema, Table, Validator, read_schema
from tamis.sources.table_files import FrameReader
from tamis.training import Trainer
from tamis.training.folder import has_checkpoint

STREAM, WAITING = "stream", "waiting"
"""The command that streams, and the setting that may differ: the room in which rows wait."""

WAIT_ROWS = 10_000
"""Rows that wait for their labels, where a run had no room for any."""


class Continued(NamedTuple):
    """A run to be continued: its trainer without its state, and what it was made of.

    `settings` are those of its checkpoints that are not the trainer's own.
    """

    trainer: Trainer
    options: Namespace
    metadata: RunMetadata
    schema: Schema
    settings: dict[str, object]


def continue_run(folder: Path, given: Namespace) -> Continued:
    """Return a run that can be resumed; `given` has options in place of those that it has.

    Code of a user's own is imported only where `given` names it, not because the folder does.
    """
    if RankCheckpoints(folder / RunFiles.checkpoints).slots():
        raise UsageError(f"{folder} was trained in shards: this needs a run of one process.")
    if not has_checkpoint(folder):
        raise UsageError(
            f"{folder} holds no run with a checkpoint: tamis train or tamis stream makes one."
        )
    if not (folder / RunFiles.schema).exists():
        raise UsageError(f"{folder} has no {RunFiles.schema}: its rows were read by code, --rows.")
    checkpoints, metadata = Checkpoints(folder / RunFiles.checkpoints), read_metadata(folder)
    if not metadata.options:
        raise UsageError(f"{folder} was made by an older tamis: train once more.")
    absent = {"wait_rows": None, "wait_seconds": None, "on_disk": False}
    options = Namespace(**{**absent, **metadata.options, "out": folder})
    for name in ("model", "selector"):
        recorded = str(getattr(options, name))
        if ":" in recorded and getattr(given, name) is None:
            raise UsageError(f"the {name} is {recorded}, code of your own: pass --{name}.")
    for name, value in vars(given).items():
        if value is not None:
            setattr(options, name, value)
    saved, schema = checkpoints.read_settings(), first_schema(folder, checkpoints.read_offset())
    if options.wait_rows is None:
        options.wait_rows = max(WAIT_ROWS, rows_of_room(saved.get(WAITING, "")))
    trainer = build_again(folder, options, schema)
    if trainer.waiting is None and saved.get(WAITING) != describe(None):
        trainer.wait_in(room_of(options))
    own = trainer.settings()
    found = differences(
        *({n: of[n] for n in own if n in of and n != WAITING} for of in (saved, own))
    )
    if found:
        raise UsageError(f"{folder} is continued by another trainer: {'; '.join(found)}.")
    kept = {name: value for name, value in saved.items() if name not in own}
    named = replace(metadata, classes=schema.classes)
    return Continued(trainer, options, named, schema, kept)


def first_schema(folder: Path, offset: Any) -> Schema:
    """Return the schema that a run began with: classes that have come up since are in its state."""
    if isinstance(offset, dict) and "schema" in offset:
        return Schema.from_json(offset["schema"])
    return read_schema(folder / RunFiles.schema)


def rows_of_room(description: str) -> int:
    """Return how many rows a waiting room has room for, by its description.

    >>> rows_of_room("WaitingRoom(rows=20000, seconds=None)"), rows_of_room("None")
    (20000, 0)
    """
    found = re.search(r"\brows=(\d+)", description)
    return int(found[1]) if found else 0


def build_again(folder: Path, options: Namespace, schema: Schema) -> Trainer:
    """Return a trainer as the command that made a run built it."""
    shape = schema.input_shape
    selector = build_selector(options.selector, options.set)
    rejects = Rejects(folder / RunFiles.rejects)
    streamed = options.prog.endswith(STREAM)
    limit = limit_of(options) if streamed else None
    validator = Validator(len(schema.classes), rejects=rejects, max_classes=limit)
    if streamed:
        trainer = stream_trainer(
            options, schema, torch.empty(0, *shape), selector, validator, build_trainer
        )
    else:
        validator.on_bad = options.on_bad
        scale = torch.ones(shape if len(shape) == 1 else 1)  # pictures have one for all pixels
        table = Table(
            FrameReader({}), schema, 1, validator, 0, scale, scale, sample=torch.empty(0, *shape)
        )
        trainer = table_trainer(options, table, selector, validator, build_trainer)
    validator.scale = scale_of(trainer.model)
    return trainer
