"""tamis stream."""

from __future__ import annotations

import json
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, get_args

import torch
from rich.console import Console
from torch import Tensor

from tamis.checkpoint import (
    Checkpoints,
    DamagedCheckpointWarning,
    NotSavedError,
    RefusedError,
    save_model,
    write_atomically,
)
from tamis.cli import keeping
from tamis.cli.keeping import Sending
from tamis.cli.saving import Leaving, hint
from tamis.cli.train import (
    about,
    add_training_arguments,
    build_trainer,
    check_folder,
    choose,
    choose_selector,
    positive,
    tell_clean_ratio,
)
from tamis.data import Samples, Slot
from tamis.errors import UsageError
from tamis.monitoring import CollapseWarning, Monitor
from tamis.review import find_suspects, write_suspects
from tamis.runs import RunFiles, RunMetadata
from tamis.selectors import Selector
from tamis.sources import (
    Columns,
    Feed,
    Policy,
    ReadAhead,
    Rejects,
    SourceError,
    TooManyBadError,
    Validator,
    open_source,
)
from tamis.sources.hidden import hide
from tamis.training import DivergedError, Trainer
from tamis.training.recorder import Keeper

HELP = "Train on a stream that goes on: files that grow, Redis, NATS or Kafka."
EXAMPLES = """examples:
  tamis stream 'logs/*.jsonl' --follow --inputs width height --label kind --classes ant bee
  tamis stream 'redis://localhost:6379/0?stream=rows&group=g' --inputs x --label y --classes 0 1
  tamis stream 'kafka://localhost:9092/rows?group=g' --rows mine:to_row --classes ant bee
  tamis stream 'logs/*.jsonl' --inputs x --label y --classes 0 1 --log mlflow

The state and the place in the stream are saved together, and a broker is told so only then: after a
crash, --resume goes on with nothing lost and nothing twice. Ctrl-C and SIGTERM save and leave.
Written to the folder: log.jsonl, checkpoints, rejects.jsonl for bad records, what tamis report,
watch, compare and export read, and at the end model.safetensors and suspects.csv, the latter from
the rows that are still held. Decisions made in tamis watch are trained on at once."""
SHAPE = "stream.json"
TELL, SHOW = 10.0, 0.5
"""Seconds from one line about how things stand to the next, and on a terminal."""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    add = parser.add_argument
    add("address", help="path, pattern, or redis://, nats://, kafka:// (docs/sources.md)")
    add("--inputs", nargs="+", metavar="COLUMN", help="columns with numbers, or lists of them")
    add("--label", help="name of the label column")
    add("--id", help="name of the column that tells records apart (default: their number)")
    add("--rows", metavar="MODULE:FUNCTION", help="in place of columns: a record to input, label")
    add("--classes", nargs="+", required=True, help="all labels that there are, by name")
    add("--follow", action="store_true", help="wait for files to grow, and for new ones")
    add("--patience", type=float, help="seconds without a record after which to end")
    add("--rows-per-slot", type=positive, default=10, help="records read at once (default 10)")
    add("--slots", type=positive, help="slots after which to end (default: none)")
    add("--scale-rows", type=positive, default=200, help="first rows, to scale by (default 200)")
    add("--queue", type=positive, default=10_000, help="records read ahead (default 10,000)")
    add(
        "--policy", choices=get_args(Policy), default="block",
        help="where training is slower than the stream (default block)",
    )  # fmt: skip
    add("--most-bad", type=float, default=0.5, help="share of bad records to stop at (default 0.5)")
    add_training_arguments(parser)


def run(options: Namespace) -> int:
    """Train until the stream, the slots or somebody's patience ends."""
    check_folder(options)
    keeping.check(options)
    selector = choose_selector(options.selector, options.set)
    out: Path = options.out
    to_row = make_rows(options)
    try:
        source = open_source(
            options.address, rows=options.rows_per_slot, follow=options.follow,
            patience=options.patience,
        )  # fmt: skip
        ahead = ReadAhead(source, max(options.queue, options.rows_per_slot), options.policy)
    except (SourceError, ValueError) as error:
        raise UsageError(str(error)) from None
    out.mkdir(parents=True, exist_ok=True)
    rejects = Rejects(out / "rejects.jsonl")
    checkpoints = Checkpoints(out / "checkpoints", settings_of(options))
    resuming = options.resume and bool(checkpoints.generations())
    with (
        warnings.catch_warnings(),
        Leaving() as leaving,
        Monitor(out / "log.jsonl") as monitor,
        closing(Sending(options.log, out, shown(options))) as sending,
    ):
        for told_below in (CollapseWarning, DamagedCheckpointWarning):
            warnings.simplefilter("ignore", told_below)
        validator = Validator(len(options.classes))
        if resuming:
            shape = read_shape(out / SHAPE)
            trainer = make(options, selector, shape, blank(shape), blank(shape), validator)
            keeper = make_keeper(options, trainer, shape)
            others = {"monitor": monitor, "keeper": keeper}
            offset = restore(checkpoints, trainer, others, options.allow_mismatch)
            feed = Feed(ahead, to_row, offset=offset, rejects=rejects, most_bad=options.most_bad)
            items: Iterator[Samples] = iter(feed)
        else:
            checkpoints.clear()
            rejects.clear()
            feed = Feed(ahead, to_row, rejects=rejects, most_bad=options.most_bad)
            items = iter(feed)
        with feed, ending(feed, leaving):
            try:
                first: list[Samples] = []
                if not resuming:
                    first = take(items, options.scale_rows)
                    if not first:
                        raise UsageError(nothing(feed, options.address))
                    mean, deviation = measure(first)
                    write_atomically(out / SHAPE, json.dumps(list(mean.shape)).encode())
                    trainer = make(options, selector, mean.shape, mean, deviation, validator)
                    keeper = make_keeper(options, trainer, mean.shape)
                    items = chain(first, items)
                keeper.begin(resuming)
                loop = Loop(options, keeper, monitor, checkpoints, feed, leaving, sending)
                loop.run(items, len(first))
            except SourceError as error:
                raise UsageError(str(error)) from None
        finish(options, keeper, monitor, loop, out)
    return 128 + leaving.signal if leaving.signal else 0


class Loop:
    """The loop itself, with what has to be done now and then."""

    def __init__(
        self,
        options: Namespace,
        keeper: Keeper,
        monitor: Monitor,
        checkpoints: Checkpoints,
        feed: Feed,
        leaving: Leaving,
        sending: Sending,
    ) -> None:
        self.trainer = keeper.trainer
        self.keeper = keeper
        self.monitor = monitor
        self.sending = sending
        self.checkpoints = checkpoints
        self.feed = feed
        self.leaving = leaving
        self.most = options.slots
        self.every = options.save_every
        self.console = Console()
        self.trouble = ""
        self.saved = False
        self.pending = 0
        self._saved_when = self._told = monotonic()

    def run(self, items: Iterator[Samples], first: int) -> None:
        """Train on what comes; whatever ends it, the state is saved.

        The `first` samples were taken early, to scale by: the offset is theirs to the last, and
        nothing is saved before they are trained on.
        """
        self.pending = first
        try:
            with self.console.status("") as status:
                for samples in items:
                    mended, _ = self.keeper.mend(samples)
                    slot = self.trainer.step(mended)
                    self.keeper.update(slot, mended)
                    self.pending = max(0, self.pending - 1)
                    self.sending.update(self.monitor.update(slot))
                    self.tell(slot, status)
                    if self.leaving.signal or slot.number + 1 == self.most:
                        break
                    if self.every.due(self.trainer.slots, self._saved_when):
                        self.save()
        except TooManyBadError as error:
            self.save()
            self.keeper.end(None, (), "stopped")
            raise UsageError(f"{error} The state is saved; see rejects.jsonl.") from None
        except DivergedError as error:
            self.keeper.end(None, (), "diverged")
            where = f"The last good checkpoint is in {self.checkpoints.folder}."
            raise DivergedError(f"{error} {where}") from None
        self.save()

    def save(self) -> None:
        """Save state and offset as one, and only then let the source go."""
        self._saved_when = monotonic()
        if self.pending:
            self.trouble = "the run ended among the rows that it scales by; begin it anew"
            return
        try:
            others = {"monitor": self.monitor, "keeper": self.keeper}
            self.checkpoints.save(self.trainer, self.feed.offset, others)
        except NotSavedError as error:
            self.trouble, self.saved = str(error), False
            return
        self.saved = True
        if not self.leaving.signal:  # the source is closing; the next run will tell it
            self.feed.acknowledge()

    def tell(self, slot: Slot, status: Any) -> None:
        """Say how things stand, now and then: to ask a broker what waits takes time."""
        if monotonic() - self._told < (SHOW if self.console.is_terminal else TELL):
            return
        self._told = monotonic()
        figures = self.feed.stats()
        waiting = "" if figures.behind is None else f", {figures.behind} wait"
        loss = "" if slot.loss is None else f", loss {slot.loss:.3f}"
        text = f"slot {slot.number + 1}, {figures.seen} records, {figures.bad} bad{waiting}{loss}"
        if self.console.is_terminal:
            status.update(text)
        else:
            self.console.print(text)


def shown(options: Namespace) -> dict[str, Any]:
    """Say what was asked for, without the secrets of an address."""
    return vars(options) | {"address": hide(options.address)}


def make_rows(options: Namespace) -> Any:
    """Say how a record becomes a row."""
    if options.rows:
        return choose("function", options.rows, ())
    if not (options.inputs and options.label):
        raise UsageError("name the columns by --inputs and --label, or a function by --rows.")
    return Columns(options.inputs, options.label, options.classes, options.id)


def make(
    options: Namespace,
    selector: Selector,
    shape: tuple[int, ...],
    mean: Tensor,
    deviation: Tensor,
    validator: Validator,
) -> Trainer:
    """Build the trainer for inputs of a shape."""
    classes = len(options.classes)
    return build_trainer(options, selector, tuple(shape), classes, mean, deviation, validator)


def take(items: Iterator[Samples], rows: int) -> list[Samples]:
    """Take the first rows, or fewer where the stream ends."""
    first: list[Samples] = []
    while sum(map(len, first)) < rows and (samples := next(items, None)) is not None:
        first.append(samples)
    return first


def measure(first: list[Samples]) -> tuple[Tensor, Tensor]:
    """Say where the inputs lie, and how far they spread."""
    inputs = torch.cat([samples.inputs for samples in first]).float()
    return inputs.mean(dim=0), inputs.std(dim=0, correction=0)


def blank(shape: tuple[int, ...]) -> Tensor:
    """Stand in for numbers that the checkpoint brings."""
    return torch.ones(shape)


def read_shape(path: Path) -> tuple[int, ...]:
    """Read the shape of the inputs that an earlier run has met."""
    try:
        shape = tuple(int(side) for side in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{path} cannot be read, and says what the inputs look like.") from None
    return shape


def make_keeper(options: Namespace, trainer: Trainer, shape: tuple[int, ...]) -> Keeper:
    """Build what keeps the folder, and say what the run is made of."""
    named = options.inputs if options.inputs and (len(options.inputs),) == tuple(shape) else ()
    settings = trainer.settings() | {"rows_per_slot": options.rows_per_slot}
    name, classes = hide(options.address), tuple(options.classes)
    about = RunMetadata(name, classes, tuple(shape), tuple(named), options.slots, settings)
    return Keeper(options.out, trainer, about, options.corrections)


def restore(
    checkpoints: Checkpoints,
    trainer: Trainer,
    others: Mapping[str, object],
    allow_mismatch: bool,
) -> Any:
    """Go on from the last checkpoint, and return the place in the stream."""
    try:
        return checkpoints.load(trainer, others, allow_mismatch).offset
    except RefusedError as error:
        raise UsageError(f"{error}{hint(error)}") from None


@contextmanager
def ending(feed: Feed, leaving: Leaving) -> Iterator[None]:
    """Close a feed that waits for records once a signal has come."""
    over = Event()

    def wait() -> None:
        while not over.wait(0.1):
            if leaving.signal:
                feed.close()
                return

    thread = Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def settings_of(options: Namespace) -> dict[str, object]:
    """Say what must be the same when a run goes on, beside what the trainer is made of."""
    return {
        "address": hide(options.address),
        "inputs": options.inputs,
        "label": options.label,
        "rows": options.rows,
        "rows_per_slot": options.rows_per_slot,
        "classes": options.classes,
    }


def nothing(feed: Feed, address: str) -> str:
    """Say why there was nothing to train on."""
    return f"{hide(address)} gave no record that can be trained on. {feed.rejects.summary()}"


def finish(options: Namespace, keeper: Keeper, monitor: Monitor, loop: Loop, out: Path) -> None:
    """Write the model and the suspects among the rows that are held, and say what came of it."""
    console, figures, trainer = loop.console, loop.feed.stats(), keeper.trainer
    told = about(options, read_shape(out / SHAPE), options.classes, monitor.slots)
    save_model(trainer.best_model(), out / "model.safetensors", told)
    pool = trainer.buffer.pool()
    rows = [(pool, [str(n) for n in pool.ids.tolist()])]
    found = find_suspects(trainer.averaged, rows, pool)
    suspects = keeper.open(found)
    write_suspects(suspects, options.classes, out / RunFiles.table)
    if loop.leaving.signal:  # who waits for the end has no time for pictures
        keeper.end(None, (), "stopped")
    else:
        keeper.end(found, rows)
    console.print(
        f"{trainer.slots} slots, {figures.seen} records, {figures.bad} bad, "
        f"{figures.dropped} dropped"
        + ("; all is saved, and --resume goes on." if loop.saved else ".")
    )
    rejects = loop.feed.rejects
    if rejects.total:
        console.print(f"{rejects.summary()} See {rejects.path}.")
    for text in (*monitor.warnings, *keeping.troubles(keeper, loop.sending)):
        console.print(f"Warning: {text}.")
    if not loop.saved:
        console.print(f"Warning: this is not saved to go on from ({loop.trouble.rstrip('.')}).")
    console.print(tell_clean_ratio(trainer))
    console.print(f"{len(suspects)} of {len(pool)} labels held look wrong: {out / RunFiles.table}")
    console.print(f"To look, and to review labels: tamis watch {out}")
