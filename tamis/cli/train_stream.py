"""Training on a stream that goes on: `tamis stream`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from tamis.buffers import WaitingRoom
from tamis.checkpoint import Checkpoints
from tamis.cli.building import (
    PLAIN,
    TABLE_MODEL,
    build_model,
    build_selector,
    build_trainer,
    check_model,
    choose,
    fill_in,
    options_of_run,
    scale_of,
)
from tamis.cli.console import plain_console
from tamis.cli.running import (
    check_options,
    open_loggers,
    open_run,
    print_next_step,
    print_outcome,
    print_suspects,
    run_results,
)
from tamis.cli.stream_classes import (
    check_classes,
    classes_of,
    hint_for,
    limit_of,
    with_classes,
)
from tamis.cli.stream_progress import Progress
from tamis.distributed.stream import LeadStream
from tamis.errors import UsageError
from tamis.monitoring.logger_group import LoggerGroup
from tamis.runs import RunFiles, RunMetadata, read_metadata
from tamis.selectors import Selector
from tamis.sources import (
    Columns,
    Feed,
    ReadAhead,
    Rejects,
    ReplacedError,
    Schema,
    SchemaRows,
    SourceError,
    TooManyBadError,
    Validator,
    infer_schema,
    open_source,
)
from tamis.sources.part import COMPLETE, Part
from tamis.sources.redaction import redact
from tamis.sources.rows import has_inputs
from tamis.sources.scaling import measure_columns
from tamis.training.defaults import TableSettings
from tamis.training.folder import has_checkpoint
from tamis.training.protocol import RecordedTrainer, RunCheckpoints
from tamis.training.signals import StopSignal

T = TypeVar("T")


def train_stream(options: Namespace) -> int:
    """Train until the stream, the slots or the patience ends."""
    check_options(options)
    selector = build_selector(options.selector, options.set)
    loggers = loggers_of(options)
    rejects = Rejects(options.out / RunFiles.rejects)
    if not resumes(options):
        rejects.clear()  # those of an earlier run
    feed = open_feed(options, rejects)
    with feed:
        with StopSignal() as stop, stop.closing(feed):
            schema = learn_schema(options, feed)
            inputs = first_inputs(options, feed)
        if stop:
            raise KeyboardInterrupt
        classes = classes_of(options, schema)
        validator = Validator(len(classes), rejects=rejects, max_classes=limit_of(options))
        trainer = stream_trainer(options, schema, inputs, selector, validator, build_trainer)
        feed.scale = scale_of(trainer.model)
        return run_stream(options, trainer, feed, loggers, schema, inputs)


def loggers_of(options: Namespace) -> LoggerGroup:
    """Return the trackers of a stream, without the secrets of its address."""
    settings = vars(options) | {"address": redact(options.address)}
    settings.pop("arguments", None)  # they have the address as it was typed
    return open_loggers(options, settings)


def run_stream(
    options: Namespace,
    trainer: RecordedTrainer,
    feed: Feed | LeadStream,
    loggers: LoggerGroup,
    schema: Schema | None,
    inputs: Tensor,
    checkpoints: RunCheckpoints | None = None,
) -> int:
    """Train on a stream, and print what came of it."""
    console = plain_console()
    shape, rejects = tuple(inputs.shape[1:]), trainer.validator.rejects
    named = schema.names if schema and len(shape) == 1 else ()
    metadata = RunMetadata(
        redact(options.address), classes_of(options, schema), shape, named, options.slots,
        trainer.settings() | {"rows_per_slot": options.rows_per_slot},
        options=options_of_run(options),
    )  # fmt: skip
    with open_run(
        options,
        trainer,
        metadata,
        settings=stream_settings(options),
        loggers=loggers,
        schema=schema,
        checkpoints=checkpoints,
        secret=() if redact(options.address) == options.address else ("address",),
    ) as run:
        with Progress(feed, console, options.slots) as progress:
            try:
                for slot in run.train(feed, options.slots):
                    progress.update(slot)
            except TooManyBadError as error:
                error.add_note(f"See {rejects.path}. {hint_for(rejects, options)}".rstrip())
                raise
            except ReplacedError as error:
                error.add_note("--resume --skip-lost goes past what cannot be read again.")
                raise
        suspects = run.finish()
        stats = feed.stats()
    counts = f"{stats.seen} records, {stats.bad} bad, {stats.dropped} dropped"
    counts += f", {stats.lost} lost" if stats.lost else ""
    print_outcome(run, console, f"on {counts}", newest=True)
    options.results.update(
        **run_results(run, suspects, records=stats.seen, dropped=stats.dropped, lost=stats.lost)
    )
    if hint := hint_for(rejects, options):
        console.print(hint)
    if suspects is not None:
        print_suspects(suspects, run, console)
    print_next_step(run, suspects, console)
    return 128 + run.stop.number if run.stop else 0


def resumes(options: Namespace) -> bool:
    """Return whether --resume is given and there is a run to resume."""
    return options.resume and has_checkpoint(options.out)


def open_feed(
    options: Namespace, rejects: Rejects, part: Part = COMPLETE, events: bool = True
) -> Feed:
    """Open a part of the source, with the rule that turns its records into rows."""
    check_classes(options)
    if options.wait_seconds is not None and not (options.time and options.wait_seconds > 0):
        raise UsageError("--wait-seconds is a time above 0, and needs --time.")
    if options.rows:
        to_row: Any = choose("function", options.rows, ())
    elif options.label:
        to_row = Columns(
            options.inputs or [], options.label, options.classes or (), options.id,
            limit_of(options), options.time, options.annotator,
        )  # fmt: skip
    else:
        raise UsageError("name the column of labels by --label, or a function by --rows.")
    try:
        source = open_source(
            options.address, rows=options.rows_per_slot, follow=options.follow,
            patience=options.patience, linger=options.linger, skip_lost=options.skip_lost,
            part=part,
        )  # fmt: skip
        ahead = ReadAhead(source, max(options.queue, options.rows_per_slot), options.policy)
    except (SourceError, ValueError) as error:
        raise UsageError(str(error)) from None
    return Feed(ahead, to_row, rejects=rejects, most_bad=options.most_bad, events=events, part=part)


def learn_schema(options: Namespace, feed: Feed) -> Schema | None:
    """Set the schema that a feed reads records by: of its checkpoint, or of the first records.

    None where a function reads them, or where there is no record to learn from.
    """
    if options.rows:
        return None
    if resumes(options):
        offset = Checkpoints(options.out / RunFiles.checkpoints).read_offset() or {}
        schema = Schema.from_json(offset["schema"]) if "schema" in offset else None
    else:
        schema = schema_of(options, first_records(options, feed))
    if schema:
        feed.to_row = SchemaRows(
            schema, limit_of(options), time=options.time, annotator=options.annotator
        )
    return schema


def first_records(options: Namespace, feed: Feed) -> list[Mapping[str, Any]]:
    """Return the first records that are mappings."""
    try:
        records = feed.peek_records(options.scale_rows)
    except SourceError as error:
        raise UsageError(str(error)) from None
    return [record for record in records if isinstance(record, Mapping)]


def schema_of(options: Namespace, records: Sequence[Mapping[str, Any]]) -> Schema | None:
    """Return the schema of the first records; inputs that were named are all inputs."""
    if not records:
        return None
    present = dict.fromkeys(str(name) for record in records for name in record)
    roles = [options.label, options.id, options.time, options.annotator]
    roles = [name for name in roles if name]
    names = options.inputs or [name for name in present if name not in (*roles, *options.drop)]
    for name in [*names, *roles]:
        if name not in present:
            raise UsageError(f"column missing: {name}; records have {', '.join(present)}.")
    if options.id:  # labels that come apart from their rows have no inputs
        records = [record for record in records if has_inputs(record, names)]
    columns = {name: [record.get(name) for record in records] for name in names}
    schema = infer_schema(
        columns, label=options.label, classes=(), id=options.id,
        kinds=dict(options.kind), named=bool(options.inputs),
    )  # fmt: skip
    return with_classes(options, schema, records)


def first_inputs(options: Namespace, feed: Feed) -> Tensor:
    """Return the inputs of the first rows, to scale by.

    A resumed run has the scale in its checkpoint: only the shape is needed, and no row is there.
    """
    if resumes(options):
        shape = read_metadata(options.out).input_shape
        if not shape:
            raise UsageError(
                f"{options.out / RunFiles.metadata} does not give the shape of the inputs."
            )
        return torch.empty(0, *shape)
    try:
        first = feed.peek(options.scale_rows)
    except (SourceError, TooManyBadError) as error:
        raise UsageError(str(error)) from None
    if not first:
        why = f" {feed.rejects.summary()}" if feed.rejects.total else ""
        raise UsageError(f"{redact(options.address)} gave no record to train on.{why}")
    return torch.cat([samples.inputs for samples in first]).float()


def stream_trainer(
    options: Namespace,
    schema: Schema | None,
    inputs: Tensor,
    selector: Selector,
    validator: Validator,
    build: Callable[..., T],
) -> T:
    """Build the model and the trainer; columns of categories or texts have the model for tables."""
    classes, shape = validator.classes or 0, tuple(inputs.shape[1:])
    given: str = options.model or (TABLE_MODEL if schema and schema.is_mixed else "")
    if schema and len(shape) == 1 and given.lower() == TABLE_MODEL.lower():
        sized = TableSettings(0)
        fill_in(options, PLAIN | {"model": TABLE_MODEL, "rate": sized.rate})
        torch.manual_seed(options.seed)  # dropout draws from torch's own generator
        model = sized.model(schema.layout, classes, inputs, options.seed)
        optimizer = sized.optimizer(model, options.rate)
        return build(
            options, model, selector, classes, validator, optimizer, waiting=room_of(options)
        )
    fill_in(options, PLAIN)
    check_model(options, schema)
    mean, deviation = torch.ones(shape), torch.ones(shape)
    if len(inputs):
        mean, deviation = measure_columns(inputs)
    if schema and len(shape) == 1:  # codes and n-grams have no scale
        mean[schema.layout.numbers :], deviation[schema.layout.numbers :] = 0, 1
    model = build_model(options, shape, classes, mean, deviation)
    return build(options, model, selector, classes, validator, waiting=room_of(options))


def room_of(options: Namespace) -> WaitingRoom:
    """Return where rows wait for their labels."""
    return WaitingRoom(options.wait_rows, seconds=options.wait_seconds)


def stream_settings(options: Namespace) -> dict[str, object]:
    """Return what must be the same when a run is resumed, beside the trainer's settings."""
    return {
        "address": redact(options.address),
        "inputs": options.inputs,
        "drop": options.drop,
        "kind": [list(pair) for pair in options.kind],
        "label": options.label,
        "id": options.id,
        "time": options.time,
        "annotator": options.annotator,
        "rows": options.rows,
        "rows_per_slot": options.rows_per_slot,
        "classes": options.classes,
        **({} if (limit := limit_of(options)) is None else {"max_classes": limit}),
    }
