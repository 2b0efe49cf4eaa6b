"""`tamis stream` as one of many ranks."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack

import torch
from torch import Tensor

from tamis.cli.building import build_selector, scale_of
from tamis.cli.crew import Crew
from tamis.cli.running import check_options
from tamis.cli.stream_classes import classes_of, limit_of
from tamis.cli.train_stream import (
    first_inputs,
    learn_schema,
    loggers_of,
    open_feed,
    run_stream,
    stream_settings,
    stream_trainer,
)
from tamis.distributed.stream import LeadStream
from tamis.distributed.wire import Message
from tamis.runs import RunFiles, read_metadata
from tamis.sources import Feed, Rejects, Schema, SchemaRows, Validator
from tamis.sources.part import Part
from tamis.training.signals import StopSignal


def stream_in_crew(options: Namespace, crew: Crew) -> int:
    """Train on a stream; the first rank owns the run."""
    options.queue = max(options.rows_per_slot, options.queue // crew.shards)
    selector = build_selector(options.selector, options.set)
    with ExitStack() as stack:
        with crew.starting():
            if crew.first:
                check_options(options)
            feeds = [
                stack.enter_context(
                    open_feed(options, crew.rejects[n], Part(n, crew.shards), events=False)
                )
                for n in crew.own
            ]
        schema, inputs = agree_on_schema(options, crew, feeds)
        with crew.starting():
            options.classes = list(classes_of(options, schema))
            validator = Validator(len(options.classes))
            trainer = stream_trainer(options, schema, inputs, selector, validator, crew.build)
            for feed, shard in zip(feeds, trainer.shards, strict=True):
                if schema:
                    feed.to_row = SchemaRows(schema, limit_of(options), time=options.time)
                feed.scale = shard.validator.scale = scale_of(trainer.model)
            live = options.follow or "://" in options.address
            member = crew.member(trainer, feeds, stream_settings(options), live)
        if not crew.first:
            member.follow()
            return 0
        lead = crew.lead(member, Rejects(options.out / RunFiles.rejects))
        lead.validator.scale = scale_of(trainer.model)
        stream = LeadStream(lead)
        found = loggers_of(options)
        return run_stream(options, lead, stream, found, schema, inputs, crew.checkpoints())


def agree_on_schema(
    options: Namespace, crew: Crew, feeds: list[Feed]
) -> tuple[Schema | None, Tensor]:
    """Return the schema of the records, and the first inputs, that the first rank has learned."""
    if not crew.first:
        _, message = crew.orders.receive()
        if not message.tensors:
            raise SystemExit(0)  # the first rank reports why
        schema = message.content and Schema.from_json(message.content)
        return schema, message.tensors["inputs"]
    if crew.resumed:
        schema = schema_of_checkpoint(crew)
        inputs = torch.empty(0, *read_metadata(options.out).input_shape)
    else:
        Rejects(options.out / RunFiles.rejects).clear()  # those of an earlier run
        schema, inputs = learn(options, feeds[0])
        crew.rejects[0].drain()  # they are read again
    tensors = {"inputs": inputs}
    crew.orders.give("start", Message(schema and schema.to_json(), tensors))
    return schema, inputs


def learn(options: Namespace, own: Feed) -> tuple[Schema | None, Tensor]:
    """Return the schema and the inputs of the first records: of files, of all of them."""
    broker = "://" in options.address
    with ExitStack() as stack:
        feed = own if broker else stack.enter_context(open_feed(options, Rejects(), events=False))
        with StopSignal() as stop, stop.closing(feed):
            schema = learn_schema(options, feed)
            inputs = first_inputs(options, feed)
        if stop:
            raise KeyboardInterrupt
    return schema, inputs


def schema_of_checkpoint(crew: Crew) -> Schema | None:
    """Return the schema that a run began with."""
    offset = crew.saved_offset() or {}
    return Schema.from_json(offset["schema"]) if "schema" in offset else None
