"""Training on a table: `tamis train`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console
from torch import Tensor

from tamis.buffers import WaitingRoom
from tamis.cli.building import (
    PLAIN,
    TABLE_MODEL,
    build_model,
    build_selector,
    build_trainer,
    check_model,
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
    slot_note,
)
from tamis.cli.schema_table import print_table, table_results
from tamis.data import Samples
from tamis.errors import UsageError
from tamis.models import cnn, mlp
from tamis.monitoring.progress import Bar, RowCount
from tamis.runs import RunFiles, RunMetadata
from tamis.runs.confusion import ConfusionCounts, write_test_counts
from tamis.selectors import Selector
from tamis.sources import Rejects, Table, Validator, open_table
from tamis.training.defaults import TableSettings
from tamis.training.kind_defaults import FeatureSettings, PictureSettings, settings_for
from tamis.training.positions import Positioned
from tamis.training.protocol import RecordedTrainer, RunCheckpoints

T = TypeVar("T")
PICTURE_MODEL = cnn.__name__
ANNOTATORS = "annotator_names"
"""Names of annotators in the order of their numbers, among the options that a run keeps."""
MIN_SLOTS = 2000
"""Slots of a run with another model, where the table has fewer."""
MOST_UNLABELLED = 50_000
"""Rows without a label that are held, at the most."""


def train_table(options: Namespace) -> int:
    """Train on a file, then write the model, the log and the suspects."""
    if not options.dry_run:
        check_options(options)
    console = plain_console()
    selector = build_selector(options.selector, options.set)
    validator = Validator(on_bad=options.on_bad, rejects=Rejects(options.out / RunFiles.rejects))
    table = read_table(options, validator, console)
    print_table(table, console, complete=options.dry_run)
    if options.dry_run:
        options.results.update(**table_results(table))
        return 0
    validator.classes = len(table.classes)
    trainer = table_trainer(options, table, selector, validator, build_trainer)
    validator.scale = scale_of(trainer.model)
    table = replace(table, rows_per_slot=options.rows_per_slot)
    return run_table(options, table, trainer, table.play())


def run_table(
    options: Namespace,
    table: Table,
    trainer: RecordedTrainer,
    stream: Positioned,
    checkpoints: RunCheckpoints | None = None,
) -> int:
    """Train on a table, and print what came of it."""
    console, slots = plain_console(), options.slots
    test = read_test(options, table)
    settings = trainer.settings() | {"rows_per_slot": options.rows_per_slot}
    known = {} if table.crowd is None else {ANNOTATORS: list(table.crowd.names)}
    metadata = RunMetadata(
        table.name, table.classes, table.input_shape, table.columns, slots, settings,
        source=place_of(options.file), digest=table.digest, options=options_of_run(options) | known,
    )  # fmt: skip
    with open_run(
        options,
        trainer,
        metadata,
        settings=table_settings(table),
        loggers=open_loggers(options, settings),
        schema=table.schema,
        evaluate=(lambda: trainer.accuracy(*test)) if test else None,
        checkpoints=checkpoints,
    ) as run:
        with Bar(options.file.name, max(0, slots - trainer.slots), console) as bar:
            for slot in run.train(stream, slots, continue_after_end=True):
                bar.advance(slot_note(slot))
        with RowCount("looking for suspects", console) as count:
            suspects = run.finish(
                lambda: counted(table, count), None if table.grouped else table.rows_per_slot
            )
        if test:
            write_test_counts(run.folder, count_predictions(trainer, table, test, options.test))
    if not trainer.held_count:
        why = trainer.validator.rejects.summary()
        raise UsageError(f"{options.file} has no row that can be trained on. {why}")
    print_outcome(run, console, f"of {slots}")
    options.results.update(**run_results(run, suspects))
    if test:
        accuracy = trainer.accuracy(*test)
        options.results.update(accuracy=accuracy.raw, accuracy_averaged=accuracy.ema)
        console.print(f"Test accuracy {accuracy.raw:.3f}, averaged weights {accuracy.ema:.3f}.")
    if suspects is not None:
        print_suspects(suspects, run, console)
    print_next_step(run, suspects, console)
    return 128 + run.stop.number if run.stop else 0


def read_table(options: Namespace, validator: Validator, console: Console) -> Table:
    """Open the file, and show how many rows have been read where that takes long."""
    if options.encoder and not options.text:
        raise UsageError("--encoder encodes a column of text: name it by --text.")
    with RowCount(f"reading {options.file.name}", console) as count:
        return open_table(
            options.file, options.label, validator, id_column=options.id,
            annotator=options.annotator, drop=options.drop,
            kinds=dict(options.kind), text=options.text, encoder=options.encoder,
            side=options.size, progress=count.update,
        )  # fmt: skip


def counted(table: Table, count: RowCount) -> Iterator[tuple[Samples, list[str]]]:
    """Yield the rows of a table, and show how many there have been."""
    done = 0
    for samples, names in table.named():
        count.update(done, table.rows)
        yield samples, names
        done += len(samples)


def table_trainer(
    options: Namespace,
    table: Table,
    selector: Selector,
    validator: Validator,
    build: Callable[..., T],
) -> T:
    """Build the model and the trainer; what no option gives follows the size of the table."""
    classes, shape = len(table.classes), table.input_shape
    sized = settings_for(table)
    other = {PictureSettings: PICTURE_MODEL, FeatureSettings: mlp.__name__}.get(type(sized))
    if other and options.model in (None, other):
        return sized_trainer(options, table, selector, validator, build, model=other, sized=sized)
    if len(shape) > 1 or (options.model or TABLE_MODEL).lower() != TABLE_MODEL.lower():
        slots = max(-(-table.rows // (options.rows_per_slot or 10)), MIN_SLOTS)
        fill_in(options, PLAIN | {"rows_per_slot": 10, "slots": slots})
        check_model(options, table.schema)
        model = build_model(options, shape, classes, table.mean, table.deviation)
        return build(options, model, selector, classes, validator, waiting=room_of(table))
    slots = options.slots or sized.slots
    fill_in(options, {"model": TABLE_MODEL, **sized_options(sized, slots)})
    torch.manual_seed(options.seed)  # dropout draws from torch's own generator
    model = sized.model(table.schema.layout, classes, table.sample, options.seed)
    optimizer = sized.optimizer(model, options.rate)
    return build(
        options, model, selector, classes, validator, optimizer, sized.augment, room_of(table)
    )


def sized_trainer(
    options: Namespace,
    table: Table,
    selector: Selector,
    validator: Validator,
    build: Callable[..., T],
    *,
    model: str,
    sized: TableSettings,
) -> T:
    """Build a model of its name and its trainer; what no option gives follows the size."""
    slots = options.slots or sized.slots
    fill_in(options, {"model": model, **sized_options(sized, slots)})
    built = build_model(options, table.input_shape, len(table.classes), table.mean, table.deviation)
    optimizer = sized.optimizer(built, options.rate)
    return build(
        options, built, selector, len(table.classes), validator, optimizer, sized.augment,
        room_of(table),
    )  # fmt: skip


def room_of(table: Table) -> WaitingRoom | None:
    """Return where rows without a label stay; None where all rows have one."""
    return WaitingRoom(min(table.unlabelled, MOST_UNLABELLED)) if table.unlabelled else None


def sized_options(sized: TableSettings, slots: int) -> dict[str, object]:
    """Return the options that follow the size of a table."""
    return {
        "k": sized.k,
        "rate": sized.rate,
        "capacity": sized.capacity,
        "pool_size": sized.pool_size,
        "slots": slots,
        "rows_per_slot": sized.rows_per_slot(slots),
    }


def read_test(options: Namespace, table: Table) -> tuple[Tensor, Tensor] | None:
    """Return the test table with the classes of the training table; nothing in it is filtered."""
    if not options.test:
        return None
    strict = Validator(len(table.classes))
    test = open_table(options.test, table.schema.label, strict, schema=table.schema)
    rows = [strict.validate(samples) for samples, _ in test.named(validator=strict)]
    labels = torch.cat([samples.labels for samples in rows])
    return torch.cat([samples.inputs for samples in rows]), labels


def count_predictions(
    trainer: RecordedTrainer, table: Table, test: tuple[Tensor, Tensor], file: Path
) -> ConfusionCounts:
    """Return predictions of the averaged weights for a test table, beside its labels."""
    predicted = trainer.averaged.logits(test[0].to(trainer.device)).argmax(dim=1).tolist()
    pairs = zip(test[1].tolist(), predicted, strict=True)
    names = table.classes
    return ConfusionCounts.of(((names[a], names[b]) for a, b in pairs), file.name)


def place_of(file: Path) -> str:
    """Return where a table is, from any working folder; a data set of a hub by its name."""
    return str(file.resolve() if file.exists() else file)


def table_settings(table: Table) -> dict[str, object]:
    """Return what must be the same when a run is resumed, beside the trainer's settings."""
    return {
        "file": table.name,
        "label": table.schema.label,
        "drop": list(table.drop),
        "rows": table.rows,
        "rows_per_slot": table.rows_per_slot,
        "classes": list(table.classes),
        "id": table.schema.id,
        "annotator": table.crowd.annotator.name if table.crowd else None,
        "content": table.digest[:16],
        "kinds": [column.kind for column in table.schema.columns],
    }
