"""What the tests of pairs need."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tamis import Growing
from tamis.models import logistic, start
from tamis.training.pairs.two_models import TwoModels


@pytest.fixture
def make_pair() -> Callable[..., TwoModels]:
    """Build a pair of any kind: two linear models of three classes in the plane, unless given."""

    def make(kind: type[TwoModels], **settings) -> TwoModels:
        models = settings.pop("models", None)
        models = models or tuple(start(logistic, (2,), 3, seed) for seed in (0, 1))
        rate = settings.pop("rate", 0.5)
        optimizers = tuple(torch.optim.SGD(model.parameters(), rate) for model in models)
        return kind(
            models,
            optimizers,
            settings.pop("buffer", Growing(1000)),
            settings.pop("k", 8),
            **settings,
        )

    return make


class Plain:
    """A linear model in plain Python, one number at a time."""

    def __init__(self, model: nn.Module) -> None:
        (layer,) = (part for part in model.modules() if isinstance(part, nn.Linear))
        self.weight, self.bias = layer.weight.tolist(), layer.bias.tolist()

    def probabilities(self, x: list[float]) -> list[float]:
        logits = [
            sum(w * value for w, value in zip(row, x, strict=True)) + b
            for row, b in zip(self.weight, self.bias, strict=True)
        ]
        total = sum(math.exp(logit) for logit in logits)
        return [math.exp(logit) / total for logit in logits]

    def predict(self, x: list[float]) -> int:
        probabilities = self.probabilities(x)
        return probabilities.index(max(probabilities))

    def loss(self, x: list[float], y: int) -> float:
        return -math.log(self.probabilities(x)[y])

    def gradient(self, x: list[float], y: int) -> list[float]:
        """Return that of the cross entropy in the logits."""
        return [p - (c == y) for c, p in enumerate(self.probabilities(x))]

    def step(self, rate: float, rows: list[list[float]], gradients: list[list[float]]) -> None:
        """Descend the mean over these rows, given its gradients in the logits."""
        for x, gradient in zip(rows, gradients, strict=True):
            for c, s in enumerate(gradient):
                self.bias[c] -= rate * s / len(rows)
                for i, value in enumerate(x):
                    self.weight[c][i] -= rate * s * value / len(rows)

    def numbers(self) -> list[float]:
        return [*(w for row in self.weight for w in row), *self.bias]


@pytest.fixture
def plain() -> type[Plain]:
    return Plain
