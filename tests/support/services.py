"""Services to test: in this process, trained step by step, or as a process that can be killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tamis.cli.continuing import continue_run
from tamis.cli.main import build_parser, main
from tamis.cli.serve_run import open_served
from tamis.cli.train_table import ANNOTATORS
from tamis.sources import Journal
from tamis.training.run import TrainingRun
from tamis.web.access import Access
from tamis.web.journal_feed import JournalFeed, served_schema
from tamis.web.label_studio.router import label_studio_routes
from tamis.web.review_api import ReviewAPI
from tamis.web.service import Service
from tamis.web.service_app import build_app
from tamis.web.service_server import ServiceServer, listen
from tests.support.commands import PRELOADED
from tests.support.wait import END, wait_until

TOWNS = ("Bern", "Rome", "Oslo")


def make_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows of a number, a category with gaps, and a label that follows from them."""
    rng = random.Random(seed)  # noqa: S311
    rows = []
    for _ in range(count):
        age, town = round(rng.gauss(40, 12), 1), rng.choice(TOWNS)
        label = "yes" if age + (10 if town == "Rome" else 0) > 42 else "no"
        rows.append({"age": age, "town": town, "y": label})
    return rows


def train_table(folder: Path, *more: str, rows: int = 120) -> Path:
    """Train a small run on a table, and return its folder."""
    file, out = folder / "rows.jsonl", folder / "run"
    file.write_text("".join(json.dumps(row) + "\n" for row in make_rows(rows)))
    words = ["train", str(file), "--label", "y", "--out", str(out), "--slots", "25", *more]
    assert main(words) == 0
    return out


def train_stream(folder: Path, *more: str, rows: int = 120) -> Path:
    """Train a small run on a stream, and return its folder."""
    file, out = folder / "stream.jsonl", folder / "streamed"
    lines = (json.dumps({"n": f"r{n}", **row}) + "\n" for n, row in enumerate(make_rows(rows)))
    file.write_text("".join(lines))
    words = ["stream", str(file), "--label", "y", "--id", "n", "--classes", "no", "yes"]
    assert main([*words, "--out", str(out), *more]) == 0
    return out


def unlabelled(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its label."""
    return {name: cell for name, cell in row.items() if name != "y"}


@dataclass
class Opened:
    """A service in this process, whose run is trained when a test wants it."""

    run: TrainingRun
    service: Service
    journal: Journal
    feed: JournalFeed

    def train(self) -> int:
        """Train on all that is in the journal; return the number of slots."""
        before = self.run.trainer.slots
        for slot in self.run.train(self.feed):
            self.service.update(slot)
        return self.run.trainer.slots - before

    def held(self) -> dict[str, str]:
        """Return the labels of the rows held by their names."""
        pool = self.run.trainer.held()
        names = self.run.recorder.own.names_of(pool.ids.tolist())
        return {
            name: self.service.classes[label]
            for name, label in zip(names, pool.labels.tolist(), strict=True)
        }


def options_of(folder: Path, *more: str) -> Namespace:
    """Return the options of a command line."""
    return build_parser().parse_args(["serve", str(folder), "--port", "0", *more])


@contextmanager
def opened(folder: Path, *more: str, **settings: Any) -> Iterator[Opened]:
    """Open a run as `tamis serve` does, with a journal that is read to its end and no further."""
    options = options_of(folder, *more)
    given = Namespace(model=None, selector=None, wait_rows=options.wait_rows, wait_seconds=None)
    found = continue_run(folder, given)
    schema = served_schema(found.schema)
    with open_served(options, found, schema) as run:
        journal = Journal(folder / "journal", rows=8, **settings)
        feed = JournalFeed(journal, schema, run.trainer, getattr(found.options, ANNOTATORS, ()))
        with Service(run, journal, schema) as service:
            yield Opened(run, service, journal, feed)
        journal.close()


@contextmanager
def served(folder: Path, token: str | None = None, **settings: Any) -> Iterator[Any]:
    """Serve a run over HTTP; yield what was opened, and the address."""
    with opened(folder, **settings) as here, listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        access = Access("127.0.0.1", port, token)
        api = ReviewAPI(run_of(folder), "ann")
        app = build_app(here.service, access, api, routers=[label_studio_routes])
        with ServiceServer(app, listening):
            yield here, f"http://127.0.0.1:{port}"


def run_of(folder: Path) -> Any:
    """Return the files of a run."""
    from tamis.runs import Run

    return Run(folder)


class ServeProcess:
    """`tamis serve` as a process of its own, which is there until it is killed or terminated."""

    def __init__(self, folder: Path, *more: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*PRELOADED, "tamis.cli.serve_run"])
        self.printed = folder.parent / f"{folder.name}.printed"
        self.printed.write_text("")
        words = ["serve", str(folder), "--port", "0", *more]
        self.process = context.Process(target=serve, args=(words, self.printed), daemon=True)
        self.process.start()
        wait_until(
            lambda: "Ctrl-C" in self.printed.read_text() or self.process.exitcode is not None
        )
        assert self.process.exitcode is None, self.printed.read_text()
        self.url = self.printed.read_text().split(" at ")[1].split()[0].rstrip("/")

    def send(self, number: signal.Signals) -> int | None:
        """Send a signal, and return how the process ended."""
        os.kill(self.process.pid or 0, number)
        self.process.join(END)
        return self.process.exitcode

    def client(self) -> httpx.Client:
        """Return a client of the service."""
        return httpx.Client(base_url=self.url, timeout=END, trust_env=False)


def serve(words: list[str], out: Path) -> None:
    """Run the command, and write what it prints to a file."""
    import torch

    with out.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1) for stream in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    sys.exit(main(words))
