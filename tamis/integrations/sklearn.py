"""scikit-learn: a classifier of its kind, on top of the trainer."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch

from tamis.integrations.frames import empty_like, suspect_frame
from tamis.integrations.online import Factory, build
from tamis.models import start
from tamis.review import find_suspects
from tamis.review.scorer import spread_over
from tamis.selectors import Selector
from tamis.sources import Schema, Validator, infer_schema
from tamis.sources.schema.cells import Cells
from tamis.sources.schema.frames import columns_of
from tamis.training import Trainer
from tamis.training.defaults import TableSettings
from tamis.training.fitting import table_trainer

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import (
        check_array,
        check_consistent_length,
        check_random_state,
        column_or_1d,
    )
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError:
    raise ImportError(
        "tamis.integrations.sklearn needs scikit-learn: pip install 'tamis[sklearn]'"
    ) from None

Array = np.ndarray[Any, Any]


class TamisClassifier(ClassifierMixin, BaseEstimator):
    """A neural network that learns from the rows whose labels are plausible.

    `fit` holds all rows, and takes `epochs` times as many picks as there are rows. `partial_fit`
    holds the newest rows, and takes as many picks as rows have come. Fitted, `trainer_` is the
    `tamis.Trainer`, probabilities are those of averaged weights, and `suspects_` are the rows held
    whose label looks wrong.

    Columns of numbers should be scaled first: `make_pipeline(StandardScaler(), ...)`. A frame of
    pandas or Polars with text, dates or missing values needs nothing before it: the kinds of its
    columns are found out (`schema_`), and the model is the one for tables.

    Parameters
    ----------
    model: builds a network from the shape of an input and the number of classes; None is an MLP, or
        the model for tables.
    selector: how rows are picked; None is `Plausible()`.
    k: picks of a slot; None is 32, for a mixed frame by its size.
    epochs: picks of `fit`, as a multiple of its rows; None is 20, for a mixed frame by its size.
    held: newest rows that `partial_fit` holds.
    learning_rate: None is 0.001 of Adam, for a mixed frame 0.002 of AdamW.
    random_state: seed of all random draws.
    """

    def __init__(
        self,
        model: Factory | None = None,
        selector: Selector | None = None,
        *,
        k: int | None = None,
        epochs: int | None = None,
        held: int = 10_000,
        learning_rate: float | None = None,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.selector = selector
        self.k = k
        self.epochs = epochs
        self.held = held
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> TamisClassifier:  # noqa: N803
        """Build a new model, and train it on these rows."""
        inputs, labels = self._check(X, y, reset=True)
        self._begin(np.unique(labels), inputs, len(inputs))
        self._like = empty_like(X)
        slots = math.ceil((self.epochs or 20) * len(inputs) / self.trainer_.k)
        if self.schema_ is not None and self.epochs is None:
            slots = TableSettings(len(inputs)).slots
        return self._learn(inputs, labels, slots)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> TamisClassifier:  # noqa: N803
        """Continue training on new rows; the first call gets all classes that will occur."""
        first = not hasattr(self, "trainer_")
        inputs, labels = self._check(X, y, reset=first)
        if first:
            known = np.unique(labels if classes is None else classes)
            self._begin(known, inputs, self.held)
        self._like = None  # numbers of rows go on from call to call, and an index does not
        return self._learn(inputs, labels, math.ceil(len(inputs) / self.trainer_.k))

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        inputs = self._inputs(X)
        seen = self.trainer_.averaged.probabilities(torch.tensor(inputs))[:, : len(self.classes_)]
        return (seen / seen.sum(dim=1, keepdim=True)).numpy()

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the likeliest class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        found: Array = self.classes_[best]
        return found

    @property
    def suspects_(self) -> Any:
        """The rows held whose label looks wrong, worst first: row, given, suggested, score.

        As `tamis.find_suspects` returns them: of a frame as a frame, else as records. Rows are
        numbered as they came.
        """
        check_is_fitted(self)
        held = self.trainer_.held()
        names = [str(at) for at in range(max(2, len(self.classes_)))]
        ids = list(map(str, held.ids.tolist()))
        found = find_suspects(self.trainer_.averaged, [(held, ids)], names, spread_over(held))
        values = dict(zip(names, self.classes_.tolist(), strict=False))
        return suspect_frame(found, values, self._like)

    def _check(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:  # noqa: N803
        if reset:
            self.schema_ = mixed_schema(X)
        if self.schema_ is None:
            inputs, labels = validate_data(self, X, y, dtype=np.float64, reset=reset)
        else:
            inputs = self._inputs(X)
            labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None), warn=True)
            check_consistent_length(inputs, labels)
        if reset and self.schema_ is not None:
            self.n_features_in_ = len(X.columns)
            self.feature_names_in_ = np.array([str(name) for name in X.columns], object)
        check_classification_targets(labels)
        return inputs, labels

    def _inputs(self, X: Any) -> Array:  # noqa: N803
        """Return rows as the model takes them."""
        if self.schema_ is not None:
            return self.schema_.encode(X)
        found: Array = validate_data(self, X, dtype=np.float64, reset=False)
        return found

    def _begin(self, classes: Array, inputs: Array, held: int) -> None:
        self.classes_ = classes
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.schema_ is not None:
            self.trainer_ = self._table_trainer(self.schema_, inputs, held, seed)
            return
        self.trainer_ = build(
            inputs.shape[1],
            len(classes),
            model=self.model,
            selector=self.selector,
            k=self.k or 32,
            held=held,
            learning_rate=0.001 if self.learning_rate is None else self.learning_rate,
            seed=seed,
        )

    def _table_trainer(self, schema: Schema, inputs: Array, held: int, seed: int) -> Trainer:
        """Return the trainer for a mixed frame; a model of the user's gets encoded rows."""
        classes, sized = max(2, len(self.classes_)), TableSettings(held)
        selector = copy.deepcopy(self.selector)
        factory, model = self.model, None
        if factory is not None:
            model = start(factory, (schema.layout.width,), classes, seed)
        return table_trainer(
            sized, schema.layout, classes, torch.from_numpy(inputs), selector=selector,
            validator=Validator(classes), seed=seed, k=self.k, rate=self.learning_rate, model=model,
        )  # fmt: skip

    def _learn(self, inputs: Array, labels: Array, slots: int) -> TamisClassifier:
        strange = np.setdiff1d(labels, self.classes_)
        if len(strange):
            raise ValueError(f"Label {strange[0]!r} is none of the classes {self.classes_}.")
        numbers = np.searchsorted(self.classes_, labels)
        rows = (torch.tensor(inputs), torch.tensor(numbers))
        with torch.random.fork_rng(devices=[], enabled=self.schema_ is not None):
            if self.schema_ is not None:  # dropout draws from torch's own generator
                torch.manual_seed(self.trainer_.seed + self.trainer_.slots)
            self.trainer_.step(rows)
            for _ in range(slots - 1):
                self.trainer_.step()
        return self


def mixed_schema(table: Any) -> Schema | None:
    """Return the schema of a frame that has more than numbers in it; None for any other table."""
    if not hasattr(table, "columns") or not len(table):
        return None
    columns = columns_of(table)
    return None if all(map(is_numeric, columns.values())) else infer_schema(table)


def is_numeric(cells: Cells) -> bool:
    """Return whether a column is numbers only, none of them missing."""
    return (
        isinstance(cells, np.ndarray)
        and cells.ndim == 1
        and cells.dtype.kind in "fiub"
        and not np.isnan(cells).any()
    )
