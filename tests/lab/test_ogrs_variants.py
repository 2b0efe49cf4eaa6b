"""Variants of OGRS against their loops, and against the selectors that they vary."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator

from tamis.lab.ogrs_variants import OGRSVariant, printed, released
from tamis.model_view import ModelView
from tamis.selectors import OGRS, PaperOGRS, Selector
from tests.support.ogrs_loops import (
    loop_in_turn,
    make_model,
    make_pool,
    paper_loop,
    released_loop,
    select,
    starts_of,
)

NEVER = 10**6


@pytest.mark.parametrize(
    ("selector", "variant"),
    [
        (OGRS(), OGRSVariant()),
        (OGRS(3, 2.0, 0.2, 1.0, "inputs", 30), OGRSVariant(3, 2.0, 0.2, 1.0, True, "inputs", 30)),
        (PaperOGRS(), printed()),
        (PaperOGRS(9, 20.0, 0.02, 2), printed(9, 20.0, 0.02, 2)),
        (PaperOGRS(step_size=20.0, max_uses=NEVER), printed(step_size=20.0, max_uses=NEVER)),
    ],
)
def test_a_variant_picks_what_its_selector_does(selector: Selector, variant: OGRSVariant) -> None:
    pool, view = make_pool(0, 200), ModelView(make_model(0))
    pool = replace(pool, uses=torch.randint(9, (200,), generator=Generator().manual_seed(1)))
    generators = [Generator().manual_seed(0) for _ in range(2)]
    picks, again = (
        rule.select(pool, view, 12, generator)
        for rule, generator in zip((selector, variant), generators, strict=True)
    )
    assert torch.equal(picks.rows, again.rows)
    for name in ("rows", "visits", "stayed", "regret", "price"):
        assert torch.equal(getattr(picks.search, name), getattr(again.search, name)), name
    assert torch.equal(*(generator.get_state() for generator in generators))


@pytest.mark.parametrize("case", range(30))
def test_chains_in_step_end_where_the_papers_do(case: int) -> None:
    """With the price idle, walking in step or one by one is the same."""
    step_size = (0.3, 2.0, 20.0)[case % 3]
    rule = replace(printed(1 + case % 7, step_size, max_uses=NEVER), one_by_one=False)
    pool, view = make_pool(case), ModelView(make_model(case))
    starts = starts_of(pool, 8, case)
    assert select(rule, pool, view, 8, case) == paper_loop(rule, pool, view, starts)


@pytest.mark.parametrize("case", range(10))
def test_a_price_of_each_chains_own(case: int) -> None:
    rule = replace(printed(5, 2.0, max_uses=case % 4), carry_price=False)
    pool, view = make_pool(case), ModelView(make_model(case))
    starts = starts_of(pool, 7, case)
    found = select(rule, pool, view, 7, case)
    assert found == paper_loop(rule, pool, view, starts, carry_price=False)


@pytest.mark.parametrize("case", range(10))
def test_the_released_rule_is_the_scripts_loop(case: int) -> None:
    pool, view = make_pool(case), ModelView(make_model(case))
    view.model[3].weight.data *= 30  # gradients large enough for some chains to move
    found = select(released(), pool, view, 20, case)
    assert found == released_loop(pool, view, starts_of(pool, 20, case))


def test_a_released_chain_stays_where_the_gradient_is_below_its_bound() -> None:
    """A plain distance beats any gradient under 1 / (2 alpha), so the pick is the random start."""
    pool, view = make_pool(0), ModelView(make_model(0))
    assert view.input_gradients(pool.inputs, pool.labels).norm(dim=1).max() < 1 / 0.2
    picks = released().select(pool, view, 5, Generator().manual_seed(0))
    assert picks.search.stayed == 1
    assert picks.rows.tolist() == starts_of(pool, 5, 0)


def test_chains_in_turn_do_not_crowd() -> None:
    pool, view = make_pool(0, 50), ModelView(make_model(0))
    same = replace(pool, inputs=torch.zeros_like(pool.inputs))
    crowd = OGRSVariant(
        space="inputs", starts="picks", scaled=False, max_uses=0, price_step=1, in_turn=False
    )
    spread = replace(crowd, in_turn=True)
    assert len(set(select(crowd, same, view, 50, 0))) == 1
    assert len(set(select(spread, same, view, 50, 0))) > 40


def test_all_rows_can_be_walked_from() -> None:
    pool, view = make_pool(0, 200), ModelView(make_model(0))
    rows = select(OGRSVariant(candidates=None), pool, view, 30, 0)
    assert len(set(rows)) == len(rows)
    stops = select(OGRSVariant(candidates=None, steps=1), pool, view, 200, 0)
    assert set(rows) <= set(stops)


@pytest.mark.parametrize("space", ["inputs", "features"])
def test_costs_looked_up_are_those_computed_step_by_step(space: str) -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    pool = replace(pool, uses=torch.randint(9, (60,), generator=Generator().manual_seed(1)))
    looked_up = OGRSVariant(candidates=60, space=space, scaled=False, step_size=2.0, max_uses=3)
    computed = replace(looked_up, candidates=None)
    for seed in range(5):
        rows, ends = (set(select(rule, pool, view, 60, seed)) for rule in (looked_up, computed))
        assert rows == ends


def test_visits_are_counted() -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    rule = OGRSVariant(steps=9, candidates=None, starts="picks")
    search = rule.select(pool, view, 20, Generator().manual_seed(0)).search
    assert search.visits.sum() == 9 * 20
    assert 0 <= search.stayed <= 1


def test_the_same_label_is_kept() -> None:
    pool, view = make_pool(0), ModelView(make_model(0))
    rule = OGRSVariant(candidates=None, starts="picks", same_label=True, step_size=30.0)
    rows = rule.select(pool, view, 30, Generator().manual_seed(0)).rows
    starts = torch.tensor(starts_of(pool, 30, 0))
    assert torch.equal(pool.labels[rows], pool.labels[starts])
    assert not torch.equal(rows, starts)


@pytest.mark.parametrize("candidates", [None, 60])
@pytest.mark.parametrize("case", range(8))
def test_chains_in_turn_are_those_of_a_loop(case: int, candidates: int | None) -> None:
    """More chains than costs are computed for at a time."""
    rule = replace(
        printed(4, 2.0, max_uses=1, candidates=candidates), one_by_one=False, carry_price=False
    )
    pool, view = make_pool(case), ModelView(make_model(case))
    found = select(rule, pool, view, 21, case)
    generator = Generator().manual_seed(case)
    rows = torch.arange(60) if candidates is None else torch.randperm(60, generator=generator)
    starts = torch.randint(60, (21,), generator=generator).tolist()
    ends = loop_in_turn(rule, pool[rows], view, starts)
    assert found == rows[ends].tolist()
