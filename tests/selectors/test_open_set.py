"""PCLOF against local outlier factors and their running mean, row by row."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import PCLOF
from tamis.selectors.open_set import outlier_factors, outlier_probabilities


def naive_factors(features: Tensor, labels: Tensor, neighbours: float) -> list[float]:
    """Breunig, Kriegel, Ng and Sander, SIGMOD 2000, definitions 3 to 7, within each label."""
    points, given = features.tolist(), labels.tolist()
    factors = []
    for row, label in enumerate(given):
        rows = [other for other in range(len(given)) if given[other] == label]
        if len(rows) < 2:
            factors.append(1.0)
            continue
        count = min(max(1, int(neighbours * len(rows))), len(rows) - 1)

        def near(a: int, rows: list[int] = rows, count: int = count) -> list[int]:
            others = [b for b in rows if b != a]
            return sorted(others, key=lambda b: math.dist(points[a], points[b]))[:count]

        def density(a: int, near=near, count: int = count) -> float:
            reach = [
                max(math.dist(points[b], points[near(b)[-1]]), math.dist(points[a], points[b]))
                for b in near(a)
            ]
            return count / sum(reach)

        own = density(row)
        factors.append(min(10.0, sum(density(other) for other in near(row)) / count / own))
    return factors


def naive_probabilities(factors: list[float], given: list[int]) -> list[float]:
    probabilities = []
    for factor, label in zip(factors, given, strict=True):
        beyond = [f - 1 for f, g in zip(factors, given, strict=True) if g == label]
        spread = math.sqrt(sum(b * b for b in beyond) / len(beyond))
        score = (factor - 1) / (spread * math.sqrt(2)) if spread else 0.0
        probabilities.append(max(0.0, math.erf(score)))
    return probabilities


@pytest.fixture
def pool(generator: Generator) -> Samples:
    inputs = torch.randn(40, 2, generator=generator)
    inputs[:4] += 6
    labels = torch.arange(40) % 2
    labels[39] = 2  # alone with its label
    return Samples.of(inputs, labels, first_id=100)


@pytest.mark.parametrize("neighbours", [0.05, 0.5, 0.8])
def test_factors_and_probabilities(pool: Samples, neighbours: float) -> None:
    factors = outlier_factors(pool.inputs, pool.labels, neighbours)
    naive = naive_factors(pool.inputs, pool.labels, neighbours)
    assert factors.tolist() == pytest.approx(naive, rel=1e-4)
    assert outlier_probabilities(factors, pool.labels).tolist() == pytest.approx(
        naive_probabilities(naive, pool.labels.tolist()), abs=1e-4
    )
    assert max(naive) > 1.2


def make_models() -> list[ModelView]:
    """Models whose features stretch the plane in different ways: an identity, then others."""
    models = []
    for slot in range(4):
        stretch, head = nn.Linear(2, 2), nn.Linear(2, 3)
        with torch.no_grad():
            stretch.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0 + 4 * slot]]))
            stretch.bias.zero_()
        models.append(ModelView(nn.Sequential(stretch, head)))
    return models


def test_the_mean_runs_over_slots(pool: Samples) -> None:
    selector, g = PCLOF(), Generator().manual_seed(0)
    totals = [0.0] * len(pool)
    for slot, view in enumerate(make_models(), 1):
        features = view.features(pool.inputs)
        factors = naive_factors(features, pool.labels, 0.5)
        totals = [total + factor for total, factor in zip(totals, factors, strict=True)]
        probabilities = naive_probabilities(
            [total / slot for total in totals], pool.labels.tolist()
        )
        inliers = {row for row, probability in enumerate(probabilities) if probability < 0.5}
        assert set(selector.select(pool, view, 1000, g).rows.tolist()) == inliers
        assert 0 < len(inliers) < len(pool)
    state = selector.state_dict()
    assert state["ids"].tolist() == pool.ids.tolist()
    assert state["factors"][:, 0].tolist() == pytest.approx(totals, rel=1e-4)
    assert (state["factors"][:, 1] == 4).all()


def test_saved_and_resumed_equals_unbroken(blobs: Samples) -> None:
    view, g = make_models()[1], Generator().manual_seed(0)
    unbroken = PCLOF(candidates=100)
    unbroken.select(blobs, view, 8, g)
    resumed = PCLOF(candidates=100)
    resumed.load_state_dict({name: value.clone() for name, value in unbroken.state_dict().items()})
    then = g.get_state()
    expected = unbroken.select(blobs, view, 8, g)
    picks = resumed.select(blobs, view, 8, Generator().set_state(then))
    assert torch.equal(picks.rows, expected.rows)
    assert all(
        torch.equal(resumed.state_dict()[name], value)
        for name, value in unbroken.state_dict().items()
    )


def test_it_forgets_what_left_the_pool(blobs: Samples) -> None:
    selector, view, g = PCLOF(), make_models()[0], Generator().manual_seed(0)
    for start in range(0, 290, 10):
        held = blobs[slice(start, start + 20)]
        selector.select(held, view, 4, g)
        assert len(selector.state_dict()["ids"]) <= len(held)
    assert set(selector.state_dict()["ids"].tolist()) <= set(held.ids.tolist())
    assert repr(selector) == "PCLOF(candidates=512, neighbours=0.5, threshold=0.5)"


def test_duplicates_next_to_others_fill_no_mean() -> None:
    features = torch.cat([torch.zeros(30, 2), torch.tensor([[1e-3, 0.0], [2.0, 0.0]])])
    factors = outlier_factors(features, torch.zeros(32).long(), 0.5)
    assert factors.max() == 10
    assert (factors[:30] - 1).abs().max() < 1e-3


def test_ids_that_come_twice(blobs: Samples, blob_model: nn.Module) -> None:
    same = replace(blobs, ids=torch.zeros_like(blobs.ids))
    selector = PCLOF()
    for _ in range(3):
        picks = selector.select(same, ModelView(blob_model), 8, Generator().manual_seed(0))
        assert len(picks) == 8
    assert selector.state_dict()["ids"].tolist() == [0]


@pytest.mark.parametrize("settings", [{"neighbours": 0.0}, {"threshold": 0.0}])
def test_settings_that_cannot_be(settings: dict) -> None:
    with pytest.raises(ValueError, match="PCLOF needs"):
        PCLOF(**settings)
