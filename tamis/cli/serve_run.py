"""A run that is continued behind an HTTP service: `tamis serve`."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tamis.checkpoint import DamagedCheckpointWarning, RefusedError
from tamis.cli.console import plain_console
from tamis.cli.continuing import Continued, continue_run
from tamis.cli.next_steps import command, print_next
from tamis.cli.running import model_info, waiting_sentence
from tamis.cli.train_stream import room_of
from tamis.cli.train_table import ANNOTATORS
from tamis.cli.watch import user
from tamis.errors import UsageError
from tamis.monitoring import CollapseWarning
from tamis.runs import Run, RunFiles
from tamis.sources import Journal, Schema
from tamis.training.run import SaveEvery, TrainingRun
from tamis.web.access import Access, is_loopback, make_token
from tamis.web.journal_feed import JournalFeed, served_schema
from tamis.web.label_studio.router import label_studio_routes
from tamis.web.review_api import ReviewAPI
from tamis.web.service import Service
from tamis.web.service_app import build_app
from tamis.web.service_server import ServiceServer, listen

TOKEN = "TAMIS_TOKEN"  # noqa: S105
SERVED = {"source": "journal"}
"""Setting of checkpoints from here on: no other source may continue them."""
SWITCH_SECONDS = 0.0005
"""Seconds after which a thread lets another run: a request waits for training several times."""


def serve_run(options: Namespace) -> int:
    """Serve and train until a signal comes, then save."""
    console = plain_console()
    sys.setswitchinterval(SWITCH_SECONDS)
    named = ("model", "selector", "device", "wait_rows", "wait_seconds")
    given = Namespace(**{name: getattr(options, name) for name in named})
    found = continue_run(options.run, given)
    schema = served_schema(found.schema)
    with open_socket(options) as listening, open_served(options, found, schema) as run:
        journal = open_journal(options, console)
        service = Service(run, journal, schema)
        access = Access(options.host, listening.getsockname()[1], token_of(options))
        api = ReviewAPI(Run(options.run), options.author or user())
        app = build_app(service, access, api, routers=[label_studio_routes])
        server = ServiceServer(app, listening)
        known = getattr(found.options, ANNOTATORS, ())
        feed = JournalFeed(journal, schema, run.trainer, known)
        print_address(options.run, access, console)
        options.results.update(run=options.run, url=access.url, token=access.token)
        options.results.write()
        with server, service:
            for slot in run.train(feed):
                service.update(slot)
                if journal.size > journal.most_bytes // 4:
                    run.save()  # so that segments are removed
        run.finish()
    console.print(f"Stopped after {run.trainer.slots} slots; {journal.behind()} records wait.")
    for text in run.warnings():
        console.print(f"Warning: {text}.")
    if run.trainer.waiting is not None and (text := waiting_sentence(run.trainer.waiting)):
        console.print(text)
    print_next(console, continue_with=command("serve", options.run))
    return 128 + run.stop.number if run.stop else 0


@contextmanager
def open_socket(options: Namespace) -> Iterator[socket.socket]:
    """Listen where the options name it, or raise in one sentence."""
    try:
        listening = listen(options.host, options.port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {options.host}:{options.port}: {error}.") from None
    with listening:
        yield listening


@contextmanager
def open_served(options: Namespace, found: Continued, schema: Schema) -> Iterator[TrainingRun]:
    """Open the run that is continued, with a room in which rows wait for their labels.

    Where versions or the number of threads differ from before, so do later numbers: requests are
    never the same twice anyway.
    """
    waits = {"wait_rows": found.options.wait_rows, "wait_seconds": found.options.wait_seconds}
    recorded = {**found.metadata.options, **waits}
    with warnings.catch_warnings():
        for printed in (CollapseWarning, DamagedCheckpointWarning):
            warnings.simplefilter("ignore", printed)
        try:
            with TrainingRun(
                options.run,
                found.trainer,
                replace(found.metadata, slots=None, options=recorded),
                settings=found.settings | SERVED,
                resume=True,
                allow_mismatch=True,
                save_every=SaveEvery(*options.save_every),
                model_info=model_info(found.options, found.trainer.model),
                schema=schema,
            ) as run:
                if found.trainer.waiting is None:
                    found.trainer.wait_in(room_of(found.options))
                yield run
        except RefusedError as error:
            raise UsageError(str(error)) from None


def open_journal(options: Namespace, console: Console) -> Journal:
    """Open the journal of a run, and print what a crash has left in it."""
    folder: Path = options.run / RunFiles.journal
    journal = Journal(
        folder,
        rows=options.rows_per_slot,
        follow=True,
        linger=options.linger,
        most_unread=options.backlog,
    )
    if journal.cut:
        console.print(f"{journal.cut} bytes of a record that was not accepted are cut off.")
    return journal


def token_of(options: Namespace) -> str | None:
    """Return the token that requests need, if they do."""
    if given := os.environ.get(TOKEN):
        return given
    return make_token() if options.token or not is_loopback(options.host) else None


def print_address(folder: Path, access: Access, console: Console) -> None:
    """Print where the service is, and the token where it was made here."""
    console.print(f"Serving {folder} at {access.url}", soft_wrap=True, highlight=False)
    if access.token and access.token != os.environ.get(TOKEN):
        console.print(f"Authorization: Bearer {access.token}", soft_wrap=True, highlight=False)
    console.print("Open it in a browser to review labels; /docs there has the API.")
    console.print("Ctrl-C answers what is in progress, saves and stops.")
