"""OGRS against the paper's algorithm 1, written out row by row, chain by chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.models import mlp
from tamis.selectors import OGRS

NEVER = 10**6


def make_pool(seed: int, rows: int = 60) -> Samples:
    generator = Generator().manual_seed(seed)
    inputs = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    return Samples.of(inputs, torch.randint(2, (rows,), generator=generator))


def make_model(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp((3,), 2).double()


def paper_loop(ogrs: OGRS, pool: Samples, view: ModelView, starts: list[int]) -> list[int]:
    """Algorithm 1: dual first (eq. 8), then primal (eq. 7); every visit is a use."""
    uses, price, ends = pool.uses.tolist(), 0.0, []
    for at in starts:
        if not ogrs.carry_price:
            price = 0.0
        for _ in range(ogrs.steps):
            slope = view.input_gradients(pool.inputs[[at]], pool.labels[[at]])[0]
            price = max(0.0, price + ogrs.price_step * (uses[at] - ogrs.max_uses))
            best, lowest = -1, float("inf")
            for row, point in enumerate(pool.inputs):
                offset = point - pool.inputs[at]
                cost = (
                    (slope @ offset).item()
                    + price * (uses[row] - ogrs.max_uses)
                    + (offset @ offset).item() / (2 * ogrs.step_size)
                )
                if cost < lowest:
                    best, lowest = row, cost
            at = best
            uses[at] += 1
        ends.append(at)
    return ends


def released_loop(pool: Samples, view: ModelView, starts: list[int]) -> list[int]:
    """The rule of the authors' script: one move, plain distance, the price after the move."""
    uses, price, ends = pool.uses.tolist(), 0.0, []
    for at in starts:
        slope = view.input_gradients(pool.inputs[[at]], pool.labels[[at]])[0]
        costs = []
        for row, point in enumerate(pool.inputs):
            offset = point - pool.inputs[at]
            costs.append((slope @ offset + price / 50 * uses[row] + offset.norm() / 0.2).item())
        at = costs.index(min(costs))
        uses[at] += 1
        price += 0.25 * uses[at]
        ends.append(at)
    return ends


def starts_of(pool: Samples, k: int, seed: int) -> list[int]:
    return torch.randint(len(pool), (k,), generator=Generator().manual_seed(seed)).tolist()


def select(ogrs: OGRS, pool: Samples, view: ModelView, k: int, seed: int) -> list[int]:
    return ogrs.select(pool, view, k, Generator().manual_seed(seed)).rows.tolist()


@pytest.mark.parametrize("case", range(100))
def test_chains_in_step_end_where_the_papers_do(case: int) -> None:
    """With the price idle, walking in step or one by one is the same."""
    step_size = (0.3, 2.0, 20.0)[case % 3]
    ogrs = replace(OGRS.paper(1 + case % 7, step_size, max_uses=NEVER), one_by_one=False)
    pool, view = make_pool(case), ModelView(make_model(case))
    assert select(ogrs, pool, view, 8, case) == paper_loop(
        ogrs, pool, view, starts_of(pool, 8, case)
    )


@pytest.mark.parametrize("max_uses", [0, 1, 2])
@pytest.mark.parametrize("case", range(10))
def test_one_chain_pays_as_the_papers_does(case: int, max_uses: int) -> None:
    ogrs = replace(OGRS.paper(9, 2.0, max_uses=max_uses), one_by_one=False)
    pool, view = make_pool(case), ModelView(make_model(case))
    used = torch.randint(4, (len(pool),), generator=Generator().manual_seed(case))
    pool = replace(pool, uses=used)
    assert select(ogrs, pool, view, 1, case) == paper_loop(
        ogrs, pool, view, starts_of(pool, 1, case)
    )


@pytest.mark.parametrize("carry_price", [True, False])
@pytest.mark.parametrize("case", range(10))
def test_the_paper_setting_is_the_papers_loop(case: int, carry_price: bool) -> None:
    ogrs = replace(OGRS.paper(5, 2.0, max_uses=case % 4), carry_price=carry_price)
    pool, view = make_pool(case), ModelView(make_model(case))
    assert select(ogrs, pool, view, 7, case) == paper_loop(
        ogrs, pool, view, starts_of(pool, 7, case)
    )


@pytest.mark.parametrize("case", range(10))
def test_the_released_setting_is_the_scripts_loop(case: int) -> None:
    pool, view = make_pool(case), ModelView(make_model(case))
    view.model[3].weight.data *= 30  # steep enough for some chains to move
    found = select(OGRS.released(), pool, view, 20, case)
    assert found == released_loop(pool, view, starts_of(pool, 20, case))


def test_a_released_chain_stays_where_the_slope_is_below_its_bound() -> None:
    """A plain distance beats any slope under 1 / (2 alpha), so the pick is the random start."""
    pool, view = make_pool(0), ModelView(make_model(0))
    assert view.input_gradients(pool.inputs, pool.labels).norm(dim=1).max() < 1 / 0.2
    picks = OGRS.released().select(pool, view, 5, Generator().manual_seed(0))
    assert picks.search.stayed == 1
    assert picks.rows.tolist() == starts_of(pool, 5, 0)


def test_chains_in_turn_do_not_crowd() -> None:
    pool, view = make_pool(0, 50), ModelView(make_model(0))
    same = replace(pool, inputs=torch.zeros_like(pool.inputs))
    crowd = OGRS(
        space="inputs", starts="picks", scaled=False, max_uses=0, price_step=1, in_turn=False
    )
    spread = replace(crowd, in_turn=True)
    assert len(set(select(crowd, same, view, 50, 0))) == 1
    assert len(set(select(spread, same, view, 50, 0))) > 40


def test_walking_from_everywhere_picks_distinct_ends() -> None:
    pool, view = make_pool(0, 200), ModelView(make_model(0))
    rows = select(OGRS(candidates=None), pool, view, 30, 0)
    assert len(set(rows)) == len(rows)
    stops = OGRS(candidates=None, steps=1).select(pool, view, 200, Generator().manual_seed(0))
    assert set(rows) <= set(stops.rows.tolist())


@pytest.mark.parametrize("space", ["inputs", "features"])
def test_looking_moves_up_is_the_same_as_working_them_out(space: str) -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    pool = replace(pool, uses=torch.randint(9, (60,), generator=Generator().manual_seed(1)))
    looked_up = OGRS(candidates=60, space=space, scaled=False, step_size=2.0, max_uses=3)
    for seed in range(5):
        rows = looked_up.select(pool, view, 60, Generator().manual_seed(seed)).rows
        worked_out = replace(looked_up, candidates=None)
        ends = worked_out.select(pool, view, 60, Generator().manual_seed(seed)).rows
        assert set(rows.tolist()) == set(ends.tolist())


def test_visits_are_counted() -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    ogrs = OGRS(steps=9, candidates=None, starts="picks")
    search = ogrs.select(pool, view, 20, Generator().manual_seed(0)).search
    assert search.visits.sum() == 9 * 20
    assert 0 <= search.stayed <= 1


def test_candidates_bound_where_chains_go() -> None:
    pool, view = make_pool(0, 500), ModelView(make_model(0))
    search = OGRS(candidates=40).select(pool, view, 10, Generator().manual_seed(0)).search
    assert (search.visits > 0).sum() <= 40


def test_the_same_label_is_kept_where_asked() -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    ogrs = OGRS(candidates=None, starts="picks", same_label=True, step_size=30.0)
    rows = ogrs.select(pool, view, 30, Generator().manual_seed(0)).rows
    starts = torch.tensor(starts_of(pool, 30, 0))
    assert torch.equal(pool.labels[rows], pool.labels[starts])
    assert not torch.equal(rows, starts)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_scaled_walks_do_not_care_about_units(factor: float) -> None:
    pool = make_pool(0)
    ogrs = OGRS(space="inputs", starts="picks", max_uses=1.5, price_step=0.1)
    pool = replace(pool, uses=torch.randint(9, (60,), generator=Generator().manual_seed(1)))
    model, stretched = make_model(0), make_model(0)
    stretched[1].weight.data /= factor
    small = select(ogrs, pool, ModelView(model), 16, 3)
    large = select(ogrs, replace(pool, inputs=pool.inputs * factor), ModelView(stretched), 16, 3)
    assert small == large


def loop_in_turn(ogrs: OGRS, pool: Samples, view: ModelView, starts: list[int]) -> list[int]:
    """Chains in step and, within a step, one after another; each has a price of its own."""
    uses, prices, at = pool.uses.double(), [0.0] * len(starts), list(starts)
    for _ in range(ogrs.steps):
        slopes = view.input_gradients(pool.inputs[at], pool.labels[at])
        for chain, slope in enumerate(slopes):
            prices[chain] += ogrs.price_step * (uses[at[chain]].item() - ogrs.max_uses)
            prices[chain] = max(0.0, prices[chain])
            offsets = pool.inputs - pool.inputs[at[chain]]
            cost = offsets @ slope + offsets.square().sum(dim=1) / (2 * ogrs.step_size)
            at[chain] = (cost + prices[chain] * (uses - ogrs.max_uses)).argmin().item()
            uses[at[chain]] += 1
    return at


@pytest.mark.parametrize("candidates", [None, 60])
@pytest.mark.parametrize("case", range(8))
def test_chains_in_turn_are_those_of_a_loop(case: int, candidates: int | None) -> None:
    """More chains than are worked out at a time."""
    ogrs = replace(
        OGRS.paper(4, 2.0, max_uses=1), one_by_one=False, carry_price=False, candidates=candidates
    )
    pool, view = make_pool(case), ModelView(make_model(case))
    found = ogrs.select(pool, view, 21, Generator().manual_seed(case)).rows.tolist()
    generator = Generator().manual_seed(case)
    shown = torch.arange(60) if candidates is None else torch.randperm(60, generator=generator)
    starts = torch.randint(60, (21,), generator=generator).tolist()
    ends = loop_in_turn(ogrs, pool[shown], view, starts)
    assert found == shown[ends].tolist()
