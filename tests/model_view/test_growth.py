"""Output units for new classes: what was predicted before hardly changes, and all states follow."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tamis.errors import GrowthError
from tamis.model_view import Average, ModelView, Window
from tamis.model_view.growth import (
    FIRST_SHARE,
    SUMS,
    HeadGrowth,
    check_head,
    count_outputs,
    mean_normaliser,
    normaliser_sums,
)
from tamis.model_view.passes import last_linear
from tamis.models import MODELS, Scale, start
from tamis.models.hedge import HedgeMLP
from tamis.models.tabular import TableLayout, TableModel

IMAGE = (1, 8, 8)


def table_model(shape: tuple[int, ...], classes: int) -> nn.Module:
    return TableModel(TableLayout(64), classes, torch.rand(50, 64))


def scaled_mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    blank = torch.ones(shape)
    mlp = next(factory for factory in MODELS if factory.__name__ == "mlp")
    return nn.Sequential(Scale(blank, blank), mlp(shape, classes))


GROWING = [factory for factory in MODELS if factory.__name__ != "hedge_mlp"]
each = pytest.mark.parametrize(
    "factory", [*GROWING, table_model, scaled_mlp], ids=lambda factory: factory.__name__
)


@each
def test_old_predictions_hardly_change(factory: Callable[..., nn.Module]) -> None:
    model = start(factory, IMAGE, 3, 0).eval()
    inputs = torch.randn(40, *IMAGE)
    inputs = inputs.flatten(1) if factory is table_model else inputs
    view = ModelView(model)
    before, parameters = view.probabilities(inputs), list(model.parameters())
    check_head(model)
    level = mean_normaliser(normaliser_sums(view.logits(inputs)))
    HeadGrowth.of(model, 5, level).grow(model)
    after = view.probabilities(inputs)
    assert after.shape == (40, 5)
    assert count_outputs(model) == 5
    assert after[:, 3:].max() < 0.05
    assert after[:, :3].argmax(dim=1).equal(before.argmax(dim=1))
    torch.testing.assert_close(after[:, :3] / after[:, :3].sum(dim=1, keepdim=True), before)
    assert all(map(lambda a, b: a is b, model.parameters(), parameters))
    loss = nn.functional.cross_entropy(model(inputs), torch.full((40,), 4))
    loss.backward()
    gradient = last_linear(model)[1].weight.grad
    assert gradient is not None
    assert gradient[4].norm() > gradient[3].norm()  # it learns at once


def test_window_and_average_grow_by_the_same_units() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    window, average = Window(3), Average()
    for _ in range(4):
        with torch.no_grad():
            model[2].weight.add_(0.1)
        window.update(model)
        average.update(model)
    kept = [state["2.weight"].clone() for state in window.states(model)]
    head = HeadGrowth.of(model, 4, 2.0)
    head.grow(model)
    window.change(head.grown)
    average.change(head.grown)
    for state, before in zip(window.states(model), kept, strict=True):
        assert state["2.weight"][:3].equal(before)
    for state in [*window.states(model), *average.states(model), dict(model.named_parameters())]:
        assert state["2.weight"][3].tolist() == [0] * 6
        assert state["2.bias"][3].item() == pytest.approx(2 + math.log(FIRST_SHARE))
    for memory in (window, average):
        memory.update(model)
        assert ModelView(model, memory).probabilities(torch.rand(2, 4)).shape == (2, 4)


def test_without_biases_a_new_class_is_never_the_likeliest() -> None:
    model = nn.Linear(4, 3, bias=False)
    inputs = 5 * torch.randn(100, 4)
    before = model(inputs).argmax(dim=1)
    HeadGrowth.of(model, 4, None).grow(model)
    assert model(inputs).argmax(dim=1).equal(before)


def test_a_new_class_has_the_mean_probability_of_its_first_share() -> None:
    logits = 3 * torch.randn(500, 4, dtype=torch.float64)
    logits[3], logits[7] = torch.nan, 1e4  # one row of huge logits does not move it
    found = [row.exp().sum().item() for row in logits if row.abs().max() < 100]
    inverse = sum(1 / value for value in found) / (len(found) + 1)
    parts = [normaliser_sums(part) for part in logits.split(100)]
    level = mean_normaliser(sum(parts))
    assert level == pytest.approx(-math.log(inverse))
    shares = [math.exp(level) * FIRST_SHARE / value for value in found]
    assert sum(shares) / len(shares) == pytest.approx(FIRST_SHARE, rel=0.01)
    assert mean_normaliser(torch.zeros(SUMS)) is None


@pytest.mark.parametrize("logit", [-1e30, 1e30])
def test_no_logits_are_too_large_for_a_level(logit: float) -> None:
    sums = normaliser_sums(torch.full((3, 4), logit))
    assert abs(mean_normaliser(sums)) <= 500 + 1e-6


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def computed() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(3, 3)))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Conv2d(1, 3, 3), "does not end in a linear layer"),
        (HedgeMLP(4, 3, hidden=2), "an output layer at every depth"),
        (nn.Sequential(HedgeMLP(4, 3, hidden=2)), "an output layer at every depth"),
        (tied(), "shares its weight"),
        (computed(), "computes its weight"),
    ],
)
def test_a_head_that_cannot_grow_is_refused_in_a_sentence(model: nn.Module, sentence: str) -> None:
    with pytest.raises(GrowthError, match=sentence) as caught:
        check_head(model)
    assert str(caught.value).endswith("no class can be added.")
