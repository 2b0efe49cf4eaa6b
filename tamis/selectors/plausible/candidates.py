"""What the rule sees of the rows that it picks from."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float, multiplied_by_onednn
from tamis.noise import pairs

FARTHEST = 1e4
"""Times the largest feature of the median row, at least 1, beyond which a row is not used:
in a running mean it would outweigh all others, and its square may overflow."""


class Columns(NamedTuple):
    """The columns of candidates."""

    features: Tensor
    probabilities: Tensor
    labels: Tensor
    usable: Tensor
    uses: Tensor
    inputs: Tensor


class Candidates(Columns):
    """Rows as the averaged model sees them. An unusable row has zeros in place of its numbers.

    `inputs` are what was given, in few numbers each, or in none.
    """

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.probabilities.shape[1]

    def weights(self) -> Tensor:
        """Return the weight of each row in means over the slot; they sum to 1."""
        return self._weights

    def label_shares(self) -> Tensor:
        """Return the share of each given label."""
        if self.classes <= pairs.MANY_CLASSES:
            return self.weights() @ self._one_hot
        none = self.probabilities.new_zeros(self.classes)
        return none.index_put_((self.labels,), self.weights(), accumulate=True)

    def one_hot(self, rows: Tensor | None = None) -> Tensor:
        """Return the given labels as probabilities, (rows, classes)."""
        if rows is None:
            return self._one_hot
        labels = self.labels[rows][:, None]
        return self.probabilities.new_zeros(len(labels), self.classes).scatter_(1, labels, 1)

    @cached_property
    def _weights(self) -> Tensor:
        return (self.usable / self.usable.sum().clamp_min(1)).to(self.probabilities.dtype)

    @cached_property
    def _one_hot(self) -> Tensor:
        return torch.zeros_like(self.probabilities).scatter_(1, self.labels[:, None], 1)


def take(pool: Samples, rows: Tensor) -> Samples:
    """Return rows of a pool without what only a simulation knows."""
    # On a CPU, index_select is four times as fast as indexing.
    return Samples(
        **{
            name: column.index_select(0, rows)
            for name, column in pool.columns().items()
            if name in ("inputs", "labels", "ids", "uses", "features")
        }
    )


def look(
    samples: Samples, view: ModelView, usable: Tensor, *, with_inputs: bool = True
) -> Candidates:
    """Return the rows as the view sees them; features that the buffer keeps are not renewed.

    Inputs in few numbers are among them only `with_inputs`.
    """
    with multiplied_by_onednn(usable.device):
        return _look(samples, view, usable, with_inputs)


def _look(samples: Samples, view: ModelView, usable: Tensor, with_inputs: bool) -> Candidates:
    complete = usable.device.type == "cpu" and bool(usable.all())
    if samples.features is None:
        inputs = samples.inputs
        if not complete:
            kept = usable.reshape(-1, *[1] * (inputs.dim() - 1))
            inputs = torch.where(kept, inputs, torch.zeros_like(inputs))
        features, probabilities = view.features_and_probabilities(inputs)
    else:
        features = at_least_float(samples.features)
        probabilities = view.probabilities_at(features)
    if not (complete and in_usual_range(features) and bool(probabilities.sum().isfinite())):
        usable, features, probabilities = without_extremes(usable, features, probabilities)
    sketch = view.sketch(samples.inputs) if with_inputs else features[:, :0]
    return Candidates(
        features,
        probabilities,
        samples.labels.clamp_min(0),
        usable,
        samples.uses.to(probabilities.dtype),
        sketch.to(probabilities.dtype),
    )


def without_extremes(
    usable: Tensor, features: Tensor, probabilities: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return which rows can be used, and their numbers, with zeros in place of the others'."""
    # Probabilities are at most 1, so that their sum is finite if all of them are.
    largest = features.abs().amax(dim=1)  # NaN where one is: isfinite() takes ten times as long
    usable = usable & largest.isfinite() & probabilities.sum(dim=1).isfinite()
    usable = usable & within(largest, usable)
    if usable.device.type != "cpu" or not usable.all():  # elsewhere it would have to be waited for
        features = features.masked_fill(~usable[:, None], 0)
        probabilities = probabilities.masked_fill(~usable[:, None], 0)
    return usable, features, probabilities


def in_usual_range(features: Tensor) -> bool:
    """Return whether no row can be far beyond the median, by two numbers alone: on a CPU."""
    lowest, highest = features.aminmax()  # NaN where one is
    return lowest.item() >= -FARTHEST and highest.item() <= FARTHEST


def in_range(features: Tensor, usable: Tensor) -> Tensor:
    """Return a mask of the rows with no feature far beyond those of most usable rows."""
    return within(features.abs().amax(dim=1), usable)


def within(largest: Tensor, usable: Tensor) -> Tensor:
    """Return a mask of the rows whose largest feature is not far beyond that of the median."""
    median = largest.masked_fill(~usable, torch.nan).nanmedian().nan_to_num(0)
    bound = FARTHEST * median.clamp_min(1)
    # The median may itself be huge: squares must be finite as well.
    return (largest <= bound) & largest.square().isfinite()
