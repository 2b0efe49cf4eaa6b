"""Training on a table: `tamis train`."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tamis.cli.building import build_model, build_selector, build_trainer, scale_of
from tamis.cli.console import plain_console
from tamis.cli.running import (
    check_options,
    open_loggers,
    open_run,
    print_next_step,
    print_outcome,
    print_suspects,
    slot_note,
)
from tamis.cli.train import MIN_SLOTS
from tamis.errors import UsageError
from tamis.monitoring.progress import Bar
from tamis.runs import RunFiles, RunMetadata
from tamis.sources import Rejects, Table, Validator, open_table


def train_table(options: Namespace) -> int:
    """Train on a file, then write the model, the log and the suspects."""
    check_options(options)
    console = plain_console()
    selector = build_selector(options.selector, options.set)
    validator = Validator(on_bad=options.on_bad, rejects=Rejects(options.out / RunFiles.rejects))
    columns = {"id_column": options.id, "drop": options.drop}
    table = open_table(
        options.file, options.label, validator, **columns, rows_per_slot=options.rows_per_slot
    )
    validator.classes = len(table.classes)
    model = build_model(options, table.input_shape, len(table.classes), table.mean, table.deviation)
    validator.scale = scale_of(model)
    trainer = build_trainer(options, model, selector, len(table.classes), validator)
    test = read_test(options, table)
    slots = options.slots or max(len(table), MIN_SLOTS)
    settings = trainer.settings() | {"rows_per_slot": options.rows_per_slot}
    metadata = RunMetadata(
        table.path.name, table.classes, table.input_shape, table.columns, slots, settings
    )
    with open_run(
        options,
        trainer,
        metadata,
        settings=table_settings(table),
        loggers=open_loggers(options, settings),
        evaluate=(lambda: trainer.accuracy(*test)) if test else None,
    ) as run:
        with Bar(options.file.name, max(0, slots - trainer.slots), console) as bar:
            for slot in run.train(table.play(), slots, continue_after_end=True):
                bar.advance(slot_note(slot))
        suspects = run.finish(table.named, table.rows_per_slot)
    if not len(trainer.buffer):
        why = validator.rejects.summary()
        raise UsageError(f"{options.file} has no row that can be trained on. {why}")
    print_outcome(run, console, f"of {slots}")
    if test:
        accuracy = trainer.accuracy(*test)
        console.print(f"Test accuracy {accuracy.raw:.3f}, averaged weights {accuracy.ema:.3f}.")
    if suspects is not None:
        print_suspects(suspects, table.rows, console)
    print_next_step(run, suspects, console)
    return 128 + run.stop.number if run.stop else 0


def read_test(options: Namespace, table: Table) -> tuple[Tensor, Tensor] | None:
    """Return the test table with the classes of the training table; nothing in it is filtered."""
    if not options.test:
        return None
    strict = Validator(len(table.classes))
    test = open_table(options.test, options.label, strict, id_column=options.id, drop=options.drop)
    unknown = sorted(set(test.classes) - set(table.classes))
    if unknown or test.input_shape != table.input_shape:
        raise UsageError(
            f"{options.test} has "
            + (f"labels never trained on: {', '.join(unknown)}." if unknown else "other columns.")
        )
    numbers = {name: number for number, name in enumerate(table.classes)}
    mine = torch.tensor([numbers[name] for name in test.classes])
    rows = [strict.validate(samples) for samples, _ in test.named(validator=strict)]
    labels = torch.cat([samples.labels for samples in rows])
    return torch.cat([samples.inputs for samples in rows]), mine[labels]


def table_settings(table: Table) -> dict[str, object]:
    """Return what must be the same when a run is resumed, beside the trainer's settings."""
    return {
        "file": table.path.name,
        "label": table.label,
        "drop": list(table.drop),
        "rows": table.rows,
        "rows_per_slot": table.rows_per_slot,
        "classes": list(table.classes),
        "id": table.id_column,
        "content": table.digest[:16],
    }
