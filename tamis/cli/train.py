"""tamis train."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, get_args

import torch
from rich.console import Console
from torch import Tensor, nn

import tamis
from tamis.buffers import BUFFERS, PuriDivER
from tamis.checkpoint import Checkpoints, DamagedCheckpointWarning, save_model
from tamis.cli import keeping, saving
from tamis.cli.keeping import Sending
from tamis.cli.saving import Leaving, Saver
from tamis.data import Slot
from tamis.errors import UsageError
from tamis.models import MODELS, Scale, start
from tamis.monitoring import CollapseWarning, Monitor
from tamis.monitoring.monitor import NO_INFORMATION
from tamis.monitoring.progress import Bar
from tamis.noise import Alarm
from tamis.review import Suspect, find_suspects, write_suspects
from tamis.runs import RunFiles
from tamis.selectors import RHO, SELECTORS, Oracle, Plausible, Selector
from tamis.selectors.protocol import preferred_warm_up
from tamis.sources import OnBad, Rejects, Table, Validator, open_table
from tamis.training import DivergedError, Execution, Trainer
from tamis.training.recorder import Keeper, table_metadata
from tamis.training.window import WindowSetting

HELP = "Train on a table of your own whose labels may be wrong, and list those that look wrong."
EXAMPLES = """examples:
  tamis train clicks.csv --label clicked --id click
  tamis train images.npz --label y --model resnet18 --selector ITLM --set keep=0.8
  tamis train rows.parquet --label kind --model mynet:build --on-bad quarantine
  tamis train clicks.csv --label clicked --corrections old-run/decisions.jsonl --out new-run
  tamis train clicks.csv --label clicked --log tensorboard

A factory, as mynet:build, is called with the shape of one input and the number of classes.
Written to the folder: log.jsonl, model.safetensors, suspects.csv, checkpoints, what tamis report,
watch, compare and export read, and rejects.jsonl if any. While it goes on, tamis watch shows it,
and decisions made there are trained on at once. Ctrl-C and SIGTERM stop early and still save;
--resume goes on exactly where the last checkpoint was, also after a crash."""
LEAST_SLOTS = 2000
SHOWN = 10


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    add = parser.add_argument
    add("file", type=Path, help="CSV, Parquet or NPZ")
    add("--label", required=True, help="name of the label column")
    add("--id", help="column that names the rows, no two alike (default: number from 0)")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    add("--test", type=Path, help="table of the same columns with right labels, to test on")
    add("--rows-per-slot", type=positive, default=10, help="rows that arrive a slot (default 10)")
    add("--slots", type=positive, help=f"slots in all (default: the file, at least {LEAST_SLOTS})")
    add("--on-bad", choices=get_args(OnBad), default="skip", help="bad rows (default skip)")
    add_training_arguments(parser)


def add_training_arguments(parser: ArgumentParser) -> None:
    """Say what can be set about training, wherever the rows come from."""
    names = ", ".join(part.__name__ for part in SELECTORS)
    models = ", ".join(part.__name__ for part in MODELS)
    buffers = ", ".join(part.__name__ for part in BUFFERS)
    add = parser.add_argument
    add("--model", default="mlp", help=f"{models}, or module:factory (default mlp)")
    add("--selector", default="Plausible", help=f"{names}, or module:Class (default Plausible)")
    add("--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the selector")
    add("--k", type=positive, default=32, help="picks a slot (default 32)")
    add(
        "--warm-up",
        type=int,
        help="first slots, picked at random (default: 0 for Plausible, 200 for others)",
    )
    add("--buffer", default="Sliding", help=f"{buffers} (default Sliding)")
    add("--capacity", type=positive, default=10_000, help="rows held (default 10,000)")
    add("--pool-size", type=positive, default=1024, help="rows a selector sees (default 1,024)")
    add("--rate", type=float, default=0.1, help="learning rate of SGD (default 0.1)")
    add("--ema", type=float, default=0.99, help="decay of the averaged weights (default 0.99)")
    add(
        "--window",
        type=window,
        help="states that selectors see, or average (default: average for Plausible, RHO; else 1)",
    )
    add("--device", default="cpu", help="cpu or cuda (default cpu)")
    add("--seed", type=int, default=0, help="all chance comes from it (default 0)")
    add("--out", type=Path, default=Path("tamis-run"), help="folder (default tamis-run)")
    add("--overwrite", action="store_true", help="replace an earlier run in the folder")
    keeping.add_arguments(parser)
    saving.add_arguments(parser)


def positive(text: str) -> int:
    """Read a whole number above 0."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def window(text: str) -> WindowSetting:
    """Read a number of states, or `average`."""
    return "average" if text == "average" else positive(text)


def run(options: Namespace) -> int:
    """Train on the file, then write the model, the log and the suspects."""
    console = Console()
    out: Path = options.out
    check_folder(options)
    keeping.check(options)
    selector = choose_selector(options.selector, options.set)
    rejects = Rejects(out / "rejects.jsonl")
    validator = Validator(on_bad=options.on_bad, rejects=rejects)
    table = open_table(
        options.file, options.label, validator, options.id, options.drop, options.rows_per_slot
    )
    validator.classes = len(table.classes)
    trainer = make_trainer(options, selector, table, validator)
    test = read_test(options, table)
    out.mkdir(parents=True, exist_ok=True)
    slots = options.slots or max(len(table), LEAST_SLOTS)
    checkpoints = Checkpoints(out / "checkpoints", settings_of(options, table))
    settings = trainer.settings() | {"rows_per_slot": options.rows_per_slot}
    keeper = Keeper(out, trainer, table_metadata(table, slots, settings), options.corrections)
    evaluate = (lambda: trainer.accuracy(*test)) if test else None
    with (
        warnings.catch_warnings(),
        Leaving() as leaving,
        Monitor(out / "log.jsonl", evaluate) as monitor,
        closing(Sending(options.log, out, settings)) as sending,
    ):
        for told_below in (CollapseWarning, DamagedCheckpointWarning):
            warnings.simplefilter("ignore", told_below)
        others = {"monitor": monitor, "keeper": keeper}
        saver = Saver(checkpoints, trainer, others, options.save_every)
        resumed = bool(options.resume and saver.resume(options.allow_mismatch))
        if not resumed:
            checkpoints.clear()
            rejects.clear()
        keeper.begin(resumed)
        saver.save()  # should training diverge at once, this is the last good one
        try:
            with Bar(options.file.name, max(0, slots - trainer.slots), console) as bar:
                for slot in play(trainer, table, slots, keeper):
                    sending.update(monitor.update(slot))
                    bar.advance(note(slot))
                    if leaving.signal:
                        break
                    saver.save_if_due()
        except DivergedError as error:
            keeper.end(None, (), "diverged")
            where = f"The last good checkpoint is in {checkpoints.folder}."
            raise DivergedError(f"{error} {where}") from None
        saved = saver.save()
        if not len(trainer.buffer):
            keeper.end(None, (), "stopped")
            raise UsageError(
                f"{options.file} has no row that can be trained on. {rejects.summary()}"
            )
        suspects = None
        try:
            save_model(
                trainer.best_model(),
                out / "model.safetensors",
                about(options, table.input_shape, table.classes, monitor.slots),
            )
            suspects = list_suspects(trainer, table, keeper, leaving)
        except TimeUp:
            keeper.end(None, (), "stopped")
        except OSError as error:
            raise UsageError(f"{out} cannot be written to: {error.strerror}.") from None
    if leaving.signal:
        kept = "all is saved, and --resume goes on" if saved else "the last checkpoint is older"
        console.print(f"Stopped after {trainer.slots} slots of {slots}; {kept}.")
    told = (*monitor.warnings, *troubles(saver, monitor, trainer))
    for text in (*told, *keeping.troubles(keeper, sending)):
        console.print(f"Warning: {text}.")
    if rejects.total:
        console.print(f"{rejects.summary()} See {rejects.path}.")
    if test:
        accuracy = trainer.accuracy(*test)
        console.print(f"Test accuracy {accuracy.raw:.3f}, averaged weights {accuracy.ema:.3f}.")
    console.print(tell_clean_ratio(trainer))
    if suspects is not None:
        show(suspects, table, console)
    if settled := keeper.settled():
        console.print(f"{len(settled)} labels were decided about by people.")
    console.print(f"Model, log{'' if suspects is None else ', suspects'}: {out}")
    console.print(f"To look, and to review labels: tamis watch {out}")
    return 128 + leaving.signal if leaving.signal else 0


def tell_clean_ratio(trainer: Trainer) -> str:
    """Say how many labels seem right: of the newest rows, and of those held.

    A model may remember labels of rows held, right or wrong, and `Plausible` then finds too many
    right. What was predicted before it was learned from is free of that, and has a band.
    """
    told = []
    if isinstance(trainer.selector, Plausible):
        ratio = trainer.selector.clean_ratio()
        told += [] if ratio is None else [f"{ratio:.2f} of the rows held"]
    if trainer.tracker:
        value, low, high = trainer.tracker.estimate()
        newest = "of the newest rows, by predictions made before learning from them"
        told.append(f"{value:.2f} ({low:.2f} to {high:.2f}) {newest}")
    return f"Estimated clean ratio: {'; '.join(told) or 'not known'}."


def check_folder(options: Namespace) -> None:
    """See that no earlier run is lost by a slip."""
    if options.resume and options.overwrite:
        raise UsageError("--resume goes on with a run, and --overwrite replaces it: give one.")
    if (options.out / "log.jsonl").exists() and not (options.overwrite or options.resume):
        raise UsageError(
            f"{options.out} holds a run already: name another --out, or give --resume or "
            "--overwrite."
        )


def play(trainer: Trainer, table: Table, slots: int, keeper: Keeper) -> Iterator[Slot]:
    """Play the file, then go on learning from what is held until the slots are done.

    A trainer that has seen the first slots goes on behind them. Rows go by their numbers where
    they have no names of their own.
    """
    stream = table.named(table.rows_per_slot, table.validator, skip=trainer.slots)
    for _ in range(trainer.slots, slots):
        samples, names = next(stream, (None, None))
        samples, names = keeper.mend(samples, names if table.id_column else None)
        slot = trainer.step(samples)
        keeper.update(slot, samples, names)
        if not slot.held and slot.number >= len(table):
            return
        yield slot


def make_trainer(
    options: Namespace, selector: Selector, table: Table, validator: Validator
) -> Trainer:
    """Build a trainer for a table."""
    return build_trainer(
        options,
        selector,
        table.input_shape,
        len(table.classes),
        table.mean,
        table.deviation,
        validator,
    )


def build_trainer(
    options: Namespace,
    selector: Selector,
    input_shape: tuple[int, ...],
    classes: int,
    mean: Tensor,
    deviation: Tensor,
    validator: Validator,
) -> Trainer:
    """Build model, optimiser, buffer and trainer as asked."""
    factory = choose("model", options.model, MODELS)
    try:
        inner = start(factory, input_shape, classes, options.seed)
    except TypeError as error:
        raise UsageError(f"{options.model}(shape, classes): {error}.") from None
    if not isinstance(inner, nn.Module):
        raise UsageError(f"{options.model} returned {type(inner).__name__}, not an nn.Module.")
    model = nn.Sequential(Scale(mean, deviation), inner)
    try:
        device = torch.empty(0, device=options.device).device
        buffer = choose("buffer", options.buffer, BUFFERS)(options.capacity)
        trainer = Trainer(
            model,
            torch.optim.SGD(model.parameters(), options.rate),
            selector,
            buffer,
            options.k,
            warm_up=settle_warm_up(options.warm_up, selector),
            window=settle_window(options.window or "auto", selector),
            ema=options.ema,
            pool_size=options.pool_size,
            validator=validator,
            tracker=Alarm(classes),
            execution=Execution(device),
            seed=options.seed,
        )
        if isinstance(buffer, PuriDivER):
            buffer.view = trainer.averaged  # it keeps rows by what the model thinks of them
        return trainer
    except (ValueError, RuntimeError, AssertionError) as error:
        raise UsageError(str(error).splitlines()[0]) from None


def settle_warm_up(asked: int | None, selector: Selector) -> int:
    """Say how many slots pick at random: as many as were asked for, else as the selector needs."""
    if asked is not None:
        return asked
    return preferred_warm_up(selector)


def settle_window(asked: WindowSetting, selector: Selector) -> WindowSetting:
    """Return the window that was asked for, refusing one that the selector cannot use."""
    if isinstance(selector, RHO) and asked == 1:
        raise UsageError("RHO compares the weights with their average: give --window average.")
    return asked


def choose(kind: str, name: str, parts: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Find a part by its name, or import module:name, the working folder first."""
    for part in parts:
        if part.__name__.lower() == name.lower():
            return part
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(part.__name__ for part in parts)
        raise UsageError(f"no {kind} {name!r}: name one of {known}, or module:name of your own.")
    sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{kind} {name} cannot be imported: {error}.") from None
    finally:
        sys.path.remove("")
    return found


def choose_selector(name: str, settings: Sequence[str]) -> Selector:
    """Build a selector from its name and NAME=VALUE settings."""
    kind = choose("selector", name, SELECTORS)
    if kind is Oracle:
        raise UsageError("the oracle must be told which labels are right; choose another selector.")
    values = {}
    known = [field.name for field in fields(kind)] if is_dataclass(kind) else None
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or (known is not None and key not in known):
            has = ", ".join(known or []) or "none"
            raise UsageError(f"--set {setting}: {name} has the settings {has}, as NAME=VALUE.")
        values[key] = read_value(text)
    try:
        selector: Selector = kind(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} with {values}: {error}") from None
    return selector


def read_value(text: str) -> object:
    """Read a Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_test(options: Namespace, table: Table) -> tuple[Tensor, Tensor] | None:
    """Read the test table with the classes of the training table; nothing in it is filtered."""
    if not options.test:
        return None
    strict = Validator(len(table.classes))
    test = open_table(options.test, options.label, strict, options.id, options.drop)
    strange = sorted(set(test.classes) - set(table.classes))
    if strange or test.input_shape != table.input_shape:
        raise UsageError(
            f"{options.test} has "
            + (f"labels never trained on: {', '.join(strange)}." if strange else "other columns.")
        )
    numbers = {name: number for number, name in enumerate(table.classes)}
    mine = torch.tensor([numbers[name] for name in test.classes])
    rows = [strict.validate(samples) for samples, _ in test.named(validator=strict)]
    labels = torch.cat([samples.labels for samples in rows])
    return torch.cat([samples.inputs for samples in rows]), mine[labels]


class TimeUp(Exception):
    """There is no time to finish: somebody waits for the process to end."""


def list_suspects(
    trainer: Trainer, table: Table, keeper: Keeper, leaving: Leaving
) -> list[Suspect]:
    """Write down whose label looks wrong, and return those that nobody has decided about.

    Who is told to stop leaves the page with the suspects that it has: pictures take time.
    """
    held, rows = trainer.buffer.pool(), on_device(table, trainer, leaving)
    found = find_suspects(trainer.averaged, rows, held, table.rows_per_slot)
    suspects = keeper.open(found)
    write_suspects(suspects, table.classes, keeper.folder / RunFiles.table)
    if leaving.signal:
        keeper.end(None, (), "stopped")
    else:
        keeper.end(found, on_device(table, trainer, leaving))
    return suspects


def on_device(table: Table, trainer: Trainer, leaving: Leaving) -> Iterator[tuple[Any, list[str]]]:
    """Read the table once more, without the rows that were refused, while there is time."""
    for samples, names in table.named():
        if leaving.signal and monotonic() > leaving.until - 1:
            raise TimeUp
        good = samples.inputs.flatten(1).isfinite().all(dim=1)
        kept = [name for name, fine in zip(names, good.tolist(), strict=True) if fine]
        yield samples[good].to(trainer.device), kept


def settings_of(options: Namespace, table: Table) -> dict[str, object]:
    """Say what must be the same when a run goes on, beside what the trainer is made of."""
    scale = torch.cat([table.mean, table.deviation]).numpy().tobytes()
    return {
        "file": options.file.name,
        "label": table.label,
        "drop": list(table.drop),
        "rows": table.rows,
        "rows_per_slot": table.rows_per_slot,
        "classes": list(table.classes),
        "content": sha256(scale).hexdigest()[:16],
    }


def troubles(saver: Saver, monitor: Monitor, trainer: Trainer) -> list[str]:
    """Say what went wrong on the way and did not stop the run."""
    found = [
        f"checkpoint {number} is damaged, and the one before it was taken ({why})"
        for number, why in saver.checkpoints.damaged.items()
    ]
    if saver.checkpoints.failed:
        trouble = saver.trouble.rstrip(".")
        found.append(f"{saver.checkpoints.failed} checkpoints were not saved ({trouble})")
    if monitor.lost:
        found.append(f"{monitor.lost} lines of the log could not be written")
    if monitor.uninformative() and NO_INFORMATION not in monitor.warnings:
        found.append(NO_INFORMATION)
    if trainer.skipped_steps:
        found.append(
            f"{trainer.skipped_steps} steps were not taken: their loss was not finite, or their "
            "gradient far too steep"
        )
    return found


def about(
    options: Namespace, input_shape: Sequence[int], classes: Sequence[str], slots: int
) -> dict[str, object]:
    """Say what a reader of the model must know."""
    return {
        "tamis": tamis.__version__,
        "model": options.model,
        "selector": options.selector,
        "settings": options.set,
        "input_shape": list(input_shape),
        "classes": list(classes),
        "slots": slots,
        "seed": options.seed,
    }


def note(slot: Slot) -> str:
    """Say how things stand beside the bar."""
    parts = [] if slot.loss is None else [f"loss {slot.loss:.3f}"]
    parts += [f"skipped {slot.skipped}"] if slot.skipped else []
    return ", ".join(parts)


def show(suspects: Sequence[Suspect], table: Table, console: Console) -> None:
    """Print the worst suspects."""
    console.print(f"{len(suspects)} of {table.rows} labels look wrong; the worst:")
    for suspect in suspects[:SHOWN]:
        given, suggested = table.classes[suspect.given], table.classes[suspect.suggested]
        console.print(f"  {suspect.id}: {given}, rather {suggested} ({suspect.score:.3f})")
