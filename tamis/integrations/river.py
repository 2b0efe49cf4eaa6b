"""River: a classifier for its pipelines, evaluations and drift detectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tamis.integrations.online import Factory, build
from tamis.selectors import Selector
from tamis.training import Trainer

try:
    import pandas as pd
    from river import base
except ModuleNotFoundError:
    raise ImportError("tamis.integrations.river needs river: pip install 'tamis[river]'") from None


class RiverClassifier(base.MiniBatchClassifier):
    """A neural network that learns from the newest `held` rows those with plausible labels.

    Every `learn_one`, and every `learn_many`, is one slot: rows arrive, some of those held are
    picked, the model takes one step. `learn_many` is the faster by far. Features are those of the
    first row learned from; a missing one counts as 0, and one that comes later is ignored. Scale
    them: `StandardScaler() | ...`.

    Parameters
    ----------
    classes: largest number of classes.
    model: builds a network from the shape of an input and the number of classes; None is an MLP.
    selector: how rows are picked; None is `Plausible()`.
    k: picks of a slot.
    held: newest rows that are held.
    learning_rate: learning rate of Adam.
    seed: seed of all random draws.
    """

    def __init__(
        self,
        classes: int = 10,
        *,
        model: Factory | None = None,
        selector: Selector | None = None,
        k: int = 32,
        held: int = 1_000,
        learning_rate: float = 0.001,
        seed: int = 0,
    ) -> None:
        self.classes = classes
        self.model = model
        self.selector = selector
        self.k = k
        self.held = held
        self.learning_rate = learning_rate
        self.seed = seed
        self.trainer: Trainer | None = None
        self._features: list[Any] = []
        self._labels: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Train one slot with one row."""
        trainer = self._begun(x)
        trainer.step((self._row(x), self._numbers([y])))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:  # noqa: N803
        """Train one slot with these rows."""
        trainer = self._begun(X.columns)
        trainer.step((self._rows(X), self._numbers(y.tolist())))

    def predict_proba_one(self, x: dict[Any, Any], **_: Any) -> dict[Any, float]:
        """Return the probability of each label met so far."""
        return dict(zip(self._labels, self._probabilities(self._row(x))[0].tolist(), strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:  # noqa: N803
        """Return the probability of each label met so far, a row each."""
        found = self._probabilities(self._rows(X)).numpy()
        return pd.DataFrame(found, index=X.index, columns=list(self._labels))

    def _begun(self, features: Iterable[Any]) -> Trainer:
        """Return the trainer; it is built for the features of the first row."""
        if self.trainer is None:
            self._features = sorted(features, key=str)
            self.trainer = build(
                len(self._features),
                self.classes,
                model=self.model,
                selector=self.selector,
                k=self.k,
                held=self.held,
                learning_rate=self.learning_rate,
                seed=self.seed,
            )
        return self.trainer

    def _numbers(self, labels: list[Any]) -> Tensor:
        """Return the numbers of labels, in the order of their first appearance."""
        for label in labels:
            if label not in self._labels and len(self._labels) == self.classes:
                raise ValueError(f"Label {label!r} is one more than classes={self.classes}.")
            self._labels.setdefault(label, len(self._labels))
        return torch.tensor([self._labels[label] for label in labels])

    def _row(self, x: dict[Any, Any]) -> Tensor:
        row = [float(x.get(name, 0)) for name in self._features]
        return torch.tensor([row], dtype=torch.double)

    def _rows(self, X: pd.DataFrame) -> Tensor:  # noqa: N803
        known = X.reindex(columns=self._features, fill_value=0)
        return torch.tensor(known.to_numpy(dtype="float64"))

    def _probabilities(self, inputs: Tensor) -> Tensor:
        if self.trainer is None:
            return inputs  # no row has a column yet, and no label is known
        seen = self.trainer.averaged.probabilities(inputs)[:, : len(self._labels)]
        return seen / seen.sum(dim=1, keepdim=True)
