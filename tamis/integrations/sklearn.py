"""scikit-learn: a classifier of its kind, on top of the trainer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tamis.integrations.online import Factory, build
from tamis.selectors import Selector

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
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
    holds the newest rows, and takes as many picks as rows have come. Scale columns first:
    `make_pipeline(StandardScaler(), ...)`. Fitted, `trainer_` is the `tamis.Trainer`, and
    probabilities are those of averaged weights.

    Parameters
    ----------
    model: builds a network from the shape of an input and the number of classes; None is an MLP.
    selector: how rows are picked; None is `Plausible()`.
    k: picks of a slot.
    epochs: picks of `fit`, as a multiple of its rows.
    held: newest rows that `partial_fit` holds.
    learning_rate: learning rate of Adam.
    random_state: seed of all random draws.
    """

    def __init__(
        self,
        model: Factory | None = None,
        selector: Selector | None = None,
        *,
        k: int = 32,
        epochs: int = 20,
        held: int = 10_000,
        learning_rate: float = 0.001,
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
        self._begin(np.unique(labels), inputs.shape[1], len(inputs))
        return self._learn(inputs, labels, self.epochs)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> TamisClassifier:  # noqa: N803
        """Continue training on new rows; the first call gets all classes that will occur."""
        first = not hasattr(self, "trainer_")
        inputs, labels = self._check(X, y, reset=first)
        if first:
            known = np.unique(labels if classes is None else classes)
            self._begin(known, inputs.shape[1], self.held)
        return self._learn(inputs, labels, 1)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        seen = self.trainer_.averaged.probabilities(torch.tensor(inputs))[:, : len(self.classes_)]
        return (seen / seen.sum(dim=1, keepdim=True)).numpy()

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the likeliest class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        found: Array = self.classes_[best]
        return found

    def _check(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:  # noqa: N803
        inputs, labels = validate_data(self, X, y, dtype=np.float64, reset=reset)
        check_classification_targets(labels)
        return inputs, labels

    def _begin(self, classes: Array, columns: int, held: int) -> None:
        self.classes_ = classes
        self.trainer_ = build(
            columns,
            len(classes),
            model=self.model,
            selector=self.selector,
            k=self.k,
            held=held,
            learning_rate=self.learning_rate,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _learn(self, inputs: Array, labels: Array, epochs: int) -> TamisClassifier:
        strange = np.setdiff1d(labels, self.classes_)
        if len(strange):
            raise ValueError(f"Label {strange[0]!r} is none of the classes {self.classes_}.")
        numbers = np.searchsorted(self.classes_, labels)
        self.trainer_.step((torch.tensor(inputs), torch.tensor(numbers)))
        for _ in range(math.ceil(epochs * len(inputs) / self.k) - 1):
            self.trainer_.step()
        return self
