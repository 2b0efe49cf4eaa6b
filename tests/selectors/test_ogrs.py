"""OGRS and PaperOGRS against loops, written out row by row, chain by chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import OGRS, PaperOGRS
from tests.support.ogrs_loops import make_model, make_pool, paper_loop, select, starts_of

NEVER = 10**6


@pytest.mark.parametrize("case", range(30))
def test_the_papers_chains_are_those_of_its_loop(case: int) -> None:
    """With the price idle, and with limits that make it move."""
    limit, step_size = (0, 1, 2, NEVER)[case % 4], (0.3, 2.0, 20.0)[case % 3]
    paper = PaperOGRS(1 + case % 7, step_size, max_uses=limit)
    pool, view = make_pool(case), ModelView(make_model(case))
    starts = starts_of(pool, 7, case)
    assert select(paper, pool, view, 7, case) == paper_loop(paper, pool, view, starts)


@pytest.mark.parametrize("max_uses", [0, 1, 2])
@pytest.mark.parametrize("case", range(10))
def test_one_chain_pays_as_the_papers_does(case: int, max_uses: int) -> None:
    paper = PaperOGRS(9, 2.0, max_uses=max_uses)
    pool, view = make_pool(case), ModelView(make_model(case))
    used = torch.randint(4, (len(pool),), generator=Generator().manual_seed(case))
    pool = replace(pool, uses=used)
    starts = starts_of(pool, 1, case)
    assert select(paper, pool, view, 1, case) == paper_loop(paper, pool, view, starts)


@pytest.mark.parametrize("kind", [OGRS, PaperOGRS])
@pytest.mark.parametrize("wrong", [{"steps": 0}, {"step_size": 0.0}, {"price_step": -0.1}])
def test_steps_that_cannot_be_taken_are_refused(kind: type, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="steps >= 1"):
        kind(**wrong)


def points_of(pool: Samples, view: ModelView, space: str) -> tuple[torch.Tensor, torch.Tensor]:
    if space == "features":
        return view.features_and_gradients(pool.inputs, pool.labels)
    return pool.inputs, view.input_gradients(pool.inputs, pool.labels)


def default_loop(ogrs: OGRS, pool: Samples, view: ModelView) -> set[int]:
    """Walk a chain from every row, each with a price of its own, in units of the data."""
    points, gradients = points_of(pool, view, ogrs.space)
    distances = [
        min((here - there).norm().item() for there in points if there is not here)
        for points in [points.unbind()]
        for here in points
    ]
    distance = sum(distances) / len(distances)
    steep = gradients.norm(dim=1).quantile(0.9).item()
    alpha, gamma = ogrs.step_size * distance / steep, ogrs.price_step * distance * steep
    mean_uses = max(1.0, pool.uses.double().mean().item())
    excess = [uses / mean_uses - ogrs.max_uses for uses in pool.uses.tolist()]
    ends = set()
    for start in range(len(pool)):
        at, price = start, 0.0
        for _ in range(ogrs.steps):
            price = max(0.0, price + gamma * excess[at])  # eq. 8
            costs = [
                ((point - points[at]) @ gradients[at]).item()
                + ((point - points[at]) @ (point - points[at])).item() / (2 * alpha)
                + price * excess[row]
                for row, point in enumerate(points)
            ]  # eq. 7
            at = costs.index(min(costs))
        ends.add(at)
    return ends


@pytest.mark.parametrize("space", ["inputs", "features"])
@pytest.mark.parametrize("max_uses", [0.5, 1.5, 8.0])
def test_chains_from_all_candidates_end_where_those_of_the_loop_do(
    space: str, max_uses: float
) -> None:
    pool, view = make_pool(0, 40), ModelView(make_model(0))
    pool = replace(pool, uses=torch.randint(9, (40,), generator=Generator().manual_seed(1)))
    ogrs = OGRS(4, price_step=0.3, max_uses=max_uses, space=space)
    assert set(select(ogrs, pool, view, 40, 0)) == default_loop(ogrs, pool, view)


def test_picks_are_distinct_ends() -> None:
    pool, view = make_pool(0, 200), ModelView(make_model(0))
    rows = select(OGRS(candidates=200), pool, view, 30, 0)
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(select(OGRS(candidates=200), pool, view, 200, 0))


def test_candidates_bound_where_chains_go() -> None:
    pool, view = make_pool(0, 500), ModelView(make_model(0))
    search = OGRS(candidates=40).select(pool, view, 10, Generator().manual_seed(0)).search
    assert search.visits.sum() == 10 * 40
    assert (search.visits > 0).sum() <= 40
    assert 0 <= search.stayed <= 1


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_of_the_data_does_not_matter(factor: float) -> None:
    pool = make_pool(0)
    ogrs = OGRS(space="inputs", max_uses=1.5, price_step=0.1)
    pool = replace(pool, uses=torch.randint(9, (60,), generator=Generator().manual_seed(1)))
    model, stretched = make_model(0), make_model(0)
    stretched[1].weight.data /= factor
    small = select(ogrs, pool, ModelView(model), 16, 3)
    large = select(ogrs, replace(pool, inputs=pool.inputs * factor), ModelView(stretched), 16, 3)
    assert small == large
