"""Training on a table in a program, as `tamis train` does without a flag."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tamis.buffers import Sliding
from tamis.models import Scale, cnn, mlp, start
from tamis.models.tabular import TableLayout
from tamis.noise import Alarm
from tamis.selectors import Plausible, Selector
from tamis.sources import BadInputError, Table, Validator
from tamis.training.defaults import TableSettings
from tamis.training.kind_defaults import FeatureSettings, PictureSettings, settings_for
from tamis.training.trainer import Trainer


def fit_table(table: Table, *, selector: Selector | None = None, seed: int = 0) -> Trainer:
    """Return a trainer that has learned from a table, with settings that follow its size.

    Torch's own generator, which dropout draws from, is left as it was.
    """
    sized, model = model_for(table, seed)
    classes = table.validator.classes = len(table.classes)
    table = replace(table, rows_per_slot=sized.rows_per_slot(sized.slots))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trainer = table_trainer(
            sized, table.schema.layout, classes, table.sample, selector=selector,
            validator=table.validator, seed=seed, model=model,
        )  # fmt: skip
        chunks = table.play().named()
        for _ in range(sized.slots):
            trainer.step(next(chunks, (None, None))[0])
    return trainer


def model_for(table: Table, seed: int) -> tuple[TableSettings, nn.Module | None]:
    """Return settings by the size of a table, and the model where it is not the one for tables."""
    shape, classes = table.input_shape, len(table.classes)
    sized = settings_for(table)
    if isinstance(sized, PictureSettings):
        factory = cnn
    elif isinstance(sized, FeatureSettings):
        factory = mlp
    elif len(shape) > 1:
        raise BadInputError("Rows are arrays of numbers: train on them by tamis train.")
    else:
        return sized, None
    scale = Scale(table.mean, table.deviation)
    return sized, nn.Sequential(scale, start(factory, shape, classes, seed))


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

    What is None follows the number of rows; another model may be given.
    """
    model = model or sized.model(layout, classes, sample, seed)
    return Trainer(
        model,
        sized.optimizer(model, rate),
        Plausible() if selector is None else selector,
        Sliding(sized.capacity),
        k=k or sized.k,
        pool_size=sized.pool_size,
        augment=sized.augment,
        validator=validator,
        tracker=Alarm(classes),
        seed=seed,
    )
