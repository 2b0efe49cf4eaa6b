"""A trained model, with the schema that its rows go through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tamis.model_view import ModelView
from tamis.prediction.rows import EncodedRows, encoded_rows
from tamis.sources.schema import Schema
from tamis.sources.validation import NOT_FINITE_SCALED


@dataclass(frozen=True)
class PredictedRows:
    """Some rows of a table in order, and the probability of each class.

    Parameters
    ----------
    numbers: number of each row, from 0.
    ids: id of each row as text, its number where the table has no column of ids.
    named: whether the ids are of such a column.
    probabilities: (rows, classes); NaN for a row that could not be read.
    reasons: by place among these rows, why one could not be read.
    labels: number of the class that each row was given, -1 where it is none; None where the table
        has no column of labels.
    unreadable: by column, ids of the rows whose cell counts as missing although something is in it.
    """

    numbers: np.ndarray
    ids: list[str]
    named: bool
    probabilities: np.ndarray
    reasons: Mapping[int, str]
    labels: np.ndarray | None
    unreadable: Mapping[str, list[str]]

    @cached_property
    def readable(self) -> np.ndarray:
        """Which rows have a prediction."""
        found: np.ndarray = ~np.isnan(self.probabilities[:, 0])
        return found

    @cached_property
    def best(self) -> np.ndarray:
        """Number of the likeliest class of each row, -1 where there is no prediction."""
        found = np.full(len(self.numbers), -1)
        found[self.readable] = self.probabilities[self.readable].argmax(axis=1)
        return found

    def compared(self) -> Counter[tuple[int, int]]:
        """Return how often each class, by number, was predicted as which."""
        if self.labels is None:
            return Counter()
        both = (self.labels >= 0) & (self.best >= 0)
        return Counter(zip(self.labels[both].tolist(), self.best[both].tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Predictor:
    """Predicts the classes of rows as they come: their columns in any order, text and gaps in them.

    `predict`, `predict_proba` and `blocks` take a frame of pandas, Polars or pyarrow, a list of
    records, columns by name, or the name of a file of any format that `tamis train` reads; of a
    schema that is one array, also an array or a tensor. Values that are missing or were never seen
    are no fault; a column that is missing is one sentence.

    Parameters
    ----------
    model: the trained model, which takes encoded rows.
    schema: what the columns are; the only one is `inputs`, an array, where none was learned.
    about: what else the model's file has of it.
    held: returns encoded rows of the run, if there are any.
    """

    model: nn.Module
    schema: Schema
    about: Mapping[str, Any]
    held: Callable[[], Tensor | None] | None = None

    @cached_property
    def classes(self) -> np.ndarray:
        """Class names in the order of probabilities: integers or booleans where all are, or text.

        So they are what a data frame has in its column of labels.
        """
        return as_labels(self.schema.classes)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def predict(self, table: Any) -> np.ndarray:
        """Return the likeliest class of each row; None for a row that could not be read."""
        best = np.concatenate([np.empty(0, int), *(rows.best for rows in self.blocks(table))])
        classes = self.classes
        if (best < 0).any():
            classes = np.array([*classes.tolist(), None], object)
        found: np.ndarray = classes[best]
        return found

    def predict_proba(self, table: Any) -> np.ndarray:
        """Return the probability of each class, (rows, classes); NaN where a row is unreadable."""
        none = np.empty((0, len(self.classes)), np.float32)
        return np.concatenate([none, *(rows.probabilities for rows in self.blocks(table))])

    def blocks(self, table: Any) -> Iterator[PredictedRows]:
        """Yield predictions in blocks of bounded size, so that a file is never in memory at once.

        Every row is there, in order: one that could not be read has a reason and no prediction.
        """
        for rows in encoded_rows(table, self.schema):
            yield self._predict(rows)

    def encode(self, table: Any) -> Tensor:
        """Return the rows of a table as the model takes them; rows that are unreadable left out."""
        found = [torch.from_numpy(rows.inputs) for rows in encoded_rows(table, self.schema)]
        return torch.cat([torch.empty(0, *self.schema.input_shape), *found])

    def probabilities(self, inputs: Tensor) -> Tensor:
        """Return the probability of each class for encoded rows."""
        kind = next(self.model.parameters()).dtype
        return ModelView(self.model).probabilities(inputs.to(self.device, kind)).float().cpu()

    def to_onnx(self, path: str | Path, table: Any = None) -> float:
        """Write the model as ONNX; return its largest difference from `predict_proba`.

        It takes encoded rows, as `encode` returns them, any number at a time. Schema and class
        names are in its metadata, and the schema beside it as JSON. It is compared on the rows of
        `table`, or else on those that the run held, or on made-up ones; where a probability differs
        by more than 1e-5, it is not written.
        """
        from tamis.prediction.export import write_onnx

        return write_onnx(self, path, self.rows_to_compare(table))

    def to_torch_export(self, path: str | Path, table: Any = None) -> float:
        """Write the model as a program of torch.export (.pt2), which runs without tamis.

        What is in it, and what it is compared on, is as for `to_onnx`.
        """
        from tamis.prediction.export import write_torch_export

        return write_torch_export(self, path, self.rows_to_compare(table))

    def rows_to_compare(self, table: Any = None) -> Tensor | None:
        """Return encoded rows of a table, or those that the run held; None without either."""
        if table is not None:
            return self.encode(table)
        return None if self.held is None else self.held()

    def _predict(self, rows: EncodedRows) -> PredictedRows:
        found = np.full((len(rows), len(self.classes)), np.nan, np.float32)
        reasons = dict(rows.reasons)
        if len(rows.inputs):
            made = self.probabilities(torch.from_numpy(rows.inputs)).numpy()
            finite = np.isfinite(made).all(axis=1)
            found[rows.places[finite]] = made[finite]
            reasons |= {int(at): NOT_FINITE_SCALED for at in rows.places[~finite]}
        labels = None if rows.labels is None else self.schema.label_numbers(rows.labels)
        return PredictedRows(
            rows.numbers, rows.ids, rows.named, found, reasons, labels, rows.unreadable
        )


def as_labels(names: tuple[str, ...]) -> np.ndarray:
    """Return class names as a data frame has them.

    >>> as_labels(("0", "1")), as_labels(("False", "True")), as_labels(("01", "2"))
    (array([0, 1]), array([False,  True]), array(['01', '2'], dtype='<U2'))
    """
    if all(name.lstrip("-").isdecimal() and str(int(name)) == name for name in names):
        return np.array([int(name) for name in names])
    if set(names) <= {"True", "False"}:
        return np.array([name == "True" for name in names])
    return np.array(names)
