"""One cell of the comparison on tables: a table with wrong labels, and a method on it."""

from __future__ import annotations

import csv
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tamis.lab.made_tables import MadeTable
from tamis.lab.suspect_quality import average_precision, rank_by_cleanlab
from tamis.lab.table_sets import TABLES
from tamis.review.scorer import LabelScorer, spread_over
from tamis.sources import Validator, open_table
from tamis.streams import Noise, Symmetric
from tamis.streams.noise import Confusion
from tamis.training.fitting import fit_table

NOISES = ("symmetric", "class-dependent")
TEST_SHARE = 0.25
TILT = 0.15
"""Where wrong labels depend on the class: how far the rates of first and last are from the mean."""
FOLDS = 5
LABEL = "the label"


class Cell(NamedTuple):
    """A table, how its labels go wrong and how many, and a seed."""

    table: str
    noise: str
    wrong: float
    seed: int


@dataclass(frozen=True)
class Measured:
    """What a method made of a cell; `average_precision` is NaN where it finds no suspects.

    Seconds are of one processor, whatever else the machine does; `suspect_seconds` are further
    ones. The peak of memory is that of the process.
    """

    accuracy: float
    average_precision: float
    seconds: float
    suspect_seconds: float
    memory_mb: float


class Split(NamedTuple):
    """Rows to train on, with the labels given and whether they are right, and rows to test on."""

    train: MadeTable
    given: Tensor
    clean: Tensor
    test: MadeTable
    classes: int


class Encoded(NamedTuple):
    """A split as the schema of its training rows encodes it: for models that take numbers."""

    rows: np.ndarray[Any, Any]
    test: np.ndarray[Any, Any]
    numbers: int


def split(cell: Cell) -> Split:
    """Return the rows of a cell: a quarter of each class to test on, wrong labels in the rest."""
    table = TABLES[cell.table]()
    truth = torch.from_numpy(table.labels).long()
    classes = int(truth.max()) + 1
    generator = torch.Generator().manual_seed(cell.seed)
    order = torch.randperm(len(truth), generator=generator)
    tested = torch.zeros(len(truth), dtype=torch.bool)
    for number in range(classes):
        rows = order[truth[order] == number]
        tested[rows[: max(1, round(TEST_SHARE * len(rows)))]] = True
    train, test = order[~tested[order]], order[tested[order]]
    noise = noise_of(cell.noise, truth[train], classes)
    _, given, clean = noise.corrupt(train[:, None], truth[train], cell.wrong, generator)
    return Split(rows_of(table, train), given, clean, rows_of(table, test), classes)


def noise_of(name: str, labels: Tensor, classes: int) -> Noise:
    """Return a way in which labels go wrong.

    Where it depends on the class, a class is taken for the next, and rates rise from class to
    class. The most frequent label of a class stays the right one at 40%.
    """
    if name == "symmetric":
        return Symmetric(classes)
    rates = 0.4 * torch.linspace(1 - TILT, 1 + TILT, classes)
    matrix = torch.diag(1 - rates) + torch.diag(rates).roll(1, dims=1)
    return Confusion(matrix, torch.bincount(labels, minlength=classes) / len(labels))


def rows_of(table: MadeTable, rows: Tensor) -> MadeTable:
    """Return some rows of a table."""
    places = rows.tolist()
    columns = {name: [cells[at] for at in places] for name, cells in table.columns.items()}
    return MadeTable(columns, table.labels[places])


def write(path: Path, table: MadeTable, labels: Tensor) -> None:
    """Write a table as CSV, as a user has it."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*table.columns, LABEL])
        names = [f"class {label}" for label in labels.tolist()]
        writer.writerows(zip(*table.columns.values(), names, strict=True))


def tamis_on(cell: Cell) -> Measured:
    """Train as `tamis train FILE --label y` does, and score all labels."""
    rows = split(cell)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, rows.train, rows.given)
        started = process_time()
        table = open_table(path, LABEL, Validator())
        trainer = fit_table(table, seed=cell.seed)
        test = torch.from_numpy(table.schema.encode(rows.test.columns))
        accuracy = trainer.accuracy(test, torch.from_numpy(rows.test.labels))
        trained = process_time()
        scorer = LabelScorer(trainer.averaged, spread_over(trainer.held()))
        scores = torch.cat([scorer.scores(samples)[0] for samples, _ in table.named()])
    return Measured(
        accuracy.ema or accuracy.raw,
        average_precision(scores, ~rows.clean),
        trained - started,
        process_time() - trained,
        peak_mb(),
    )


def sklearn_on(build: Callable[[Encoded, int], Any], finds_suspects: bool, cell: Cell) -> Measured:
    """Train a model of scikit-learn; rank labels by cleanlab with predictions out of sample."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = split(cell)
    encoded = encode(rows)
    given = rows.given.numpy()
    started = process_time()
    model = build(encoded, cell.seed).fit(encoded.rows, given)
    accuracy = (model.predict(encoded.test) == rows.test.labels).mean()
    trained = process_time()
    precision = float("nan")
    if finds_suspects:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=cell.seed)
        fresh = build(encoded, cell.seed)
        predicted = cross_val_predict(fresh, encoded.rows, given, cv=folds, method="predict_proba")
        ranked = rank_by_cleanlab(rows.given, torch.from_numpy(predicted), "self_confidence")
        precision = average_precision(ranked, ~rows.clean)
    return Measured(
        float(accuracy), precision, trained - started, process_time() - trained, peak_mb()
    )


def encode(rows: Split) -> Encoded:
    """Return the split in numbers, by the same schema that tamis uses."""
    names = [f"class {label}" for label in rows.given.tolist()]
    table = open_table({**rows.train.columns, LABEL: names}, LABEL, Validator())
    return Encoded(
        table.schema.encode(rows.train.columns),
        table.schema.encode(rows.test.columns),
        table.schema.layout.numbers,
    )


def peak_mb() -> float:
    """Return the peak of this process's memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
