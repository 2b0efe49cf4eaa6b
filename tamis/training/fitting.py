"""Training on a table in a program, as `tamis train` does without a flag."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tamis.buffers import Sliding
from tamis.models.tabular import TableLayout
from tamis.noise import Alarm
from tamis.selectors import Plausible, Selector
from tamis.sources import BadInputError, Table, Validator
from tamis.training.defaults import TableSettings
from tamis.training.trainer import Trainer

POOL = 1024
"""Rows that a selector sees in a slot."""


def fit_table(table: Table, *, selector: Selector | None = None, seed: int = 0) -> Trainer:
    """Return a trainer that has learned from a table, with settings that follow its size.

    Torch's own generator, which dropout draws from, is left as it was.
    """
    if len(table.input_shape) > 1:
        raise BadInputError("Rows are pictures: train on them by tamis train.")
    sized = TableSettings(table.rows)
    classes = table.validator.classes = len(table.classes)
    table = replace(table, rows_per_slot=sized.rows_per_slot(sized.slots))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trainer = table_trainer(
            sized, table.schema.layout, classes, table.sample,
            selector=selector, validator=table.validator, seed=seed,
        )  # fmt: skip
        chunks = table.play().named()
        for _ in range(sized.slots):
            trainer.step(next(chunks, (None, None))[0])
    return trainer


def table_trainer(
    sized: TableSettings,
    layout: TableLayout,
    classes: int,
    sample: Tensor,
    *,
    selector: Selector | None,
    validator: Validator,
    seed: int,
    k: int | None = None,
    rate: float | None = None,
    model: nn.Module | None = None,
) -> Trainer:
    """Return a trainer of the model for tables, whose bins are those of a sample of rows.

    What is None follows the number of rows.
    """
    model = model or sized.model(layout, classes, sample, seed)
    return Trainer(
        model,
        sized.optimizer(model, rate),
        Plausible() if selector is None else selector,
        Sliding(sized.capacity),
        k=k or sized.k,
        pool_size=POOL,
        validator=validator,
        tracker=Alarm(classes),
        seed=seed,
    )
