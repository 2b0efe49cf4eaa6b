"""How each kind of noise is built in these tests: a new kind needs a line here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tamis.streams import (
    AnnotatorTurns,
    Boundary,
    ClassLocal,
    Confusion,
    InstanceDependent,
    Noise,
    OpenSet,
    PairFlip,
    Redrawn,
    Symmetric,
)

CLASSES = 10
FAR_AWAY = 1000.0

BuildNoise = Callable[[type, Tensor, Tensor], Noise]


def uneven_matrix() -> Tensor:
    """Classes wrong between 36% and 44% of the time, and more often taken for the next one."""
    wrong = torch.linspace(0.36, 0.44, CLASSES)
    others = torch.ones(CLASSES, CLASSES) + torch.eye(CLASSES).roll(1, dims=1)
    others.fill_diagonal_(0)
    return others / others.sum(dim=1, keepdim=True) * wrong[:, None] + torch.diag(1 - wrong)


BUILDERS: dict[type, Callable[[Tensor, Tensor], Noise]] = {
    Symmetric: lambda inputs, labels: Symmetric(CLASSES),
    Redrawn: lambda inputs, labels: Redrawn(CLASSES),
    PairFlip: lambda inputs, labels: PairFlip(CLASSES),
    Confusion: lambda inputs, labels: Confusion(uneven_matrix()),
    InstanceDependent: lambda inputs, labels: InstanceDependent(CLASSES, inputs),
    OpenSet: lambda inputs, labels: OpenSet(inputs[:100] + FAR_AWAY),
    Boundary: lambda inputs, labels: Boundary(CLASSES, inputs, labels),
    ClassLocal: lambda inputs, labels: ClassLocal(CLASSES, hit=tuple(range(9))),
    AnnotatorTurns: lambda inputs, labels: AnnotatorTurns(CLASSES, rows=10),
}


@pytest.fixture
def build_noise() -> BuildNoise:
    """Build a kind of noise for ten classes and a stream of these rows."""

    def build(kind: type, inputs: Tensor, labels: Tensor) -> Noise:
        assert kind in BUILDERS, f"define in {__file__} how to build {kind.__name__}"
        return BUILDERS[kind](inputs, labels)

    return build
