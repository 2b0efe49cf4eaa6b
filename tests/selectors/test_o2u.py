"""O2U against lists of losses kept for every row, and its rate against the paper's formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import O2U
from tamis.selectors.o2u import cyclical

LOCAL = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0])  # inputs are losses


def pool_of(losses: Tensor, first_id: int = 0) -> Samples:
    return Samples.of(losses[:, None], torch.zeros(len(losses), dtype=torch.long), first_id)


def sliding_slots(seed: int, slots: int, rows: int = 30, step: int = 2) -> list[Samples]:
    """Pools from which the oldest rows leave; every row has new losses in every slot."""
    generator = Generator().manual_seed(seed)
    return [
        pool_of(3 * torch.rand(rows, generator=generator, dtype=torch.float64), slot * step)
        for slot in range(slots)
    ]


def kept(slots: list[Samples], keep: float, cycle: int) -> list[set[int]]:
    """Rows of the lowest mean over this cycle and the last, of losses less each slot's mean."""
    history: dict[int, list[tuple[int, float]]] = {}
    expected = []
    for slot, pool in enumerate(slots):
        losses = pool.inputs[:, 0].tolist()
        mean = sum(losses) / len(losses)
        for id_, loss in zip(pool.ids.tolist(), losses, strict=True):
            history.setdefault(id_, []).append((slot // cycle, loss - mean))
        means = []
        for row, id_ in enumerate(pool.ids.tolist()):
            recent = [loss for when, loss in history[id_] if when >= slot // cycle - 1]
            means.append((sum(recent) / len(recent), row))
        expected.append({row for _, row in sorted(means)[: math.floor(keep * len(losses))]})
    return expected


def select(o2u: O2U, pool: Samples, k: int = 1000, seed: int = 0) -> list[int]:
    return o2u.select(pool, LOCAL, k, Generator().manual_seed(seed)).rows.tolist()


@pytest.mark.parametrize("case", range(10))
@pytest.mark.parametrize(("keep", "cycle"), [(0.7, 500), (0.5, 5), (0.9, 1)])
def test_slot_after_slot_as_in_lists(case: int, keep: float, cycle: int) -> None:
    slots, o2u = sliding_slots(case, 24), O2U(keep, cycle)
    for pool, rows in zip(slots, kept(slots, keep, cycle), strict=True):
        assert set(select(o2u, pool)) == rows


def test_a_row_that_was_learned_late_is_still_dropped() -> None:
    """A wrong label is learned at the end of a cycle: its loss is low now, its mean is not."""
    o2u = O2U(keep=0.75)
    early, late = torch.tensor([0.5, 0.6, 0.7, 4.0]), torch.tensor([0.5, 0.6, 0.7, 0.1])
    for _ in range(5):
        select(o2u, pool_of(early))
    assert 3 in select(O2U(keep=0.75), pool_of(late))
    assert set(select(o2u, pool_of(late))) == {0, 1, 2}


def test_a_row_is_judged_in_every_draw_that_it_is_in() -> None:
    pool, o2u = pool_of(torch.arange(100.0)), O2U(batch=8)
    generator, seen = Generator().manual_seed(0), dict.fromkeys(range(100), 0)
    for _ in range(50):
        order = torch.randperm(100, generator=Generator().set_state(generator.get_state()))
        for row in order[:8].tolist():
            seen[row] += 1
        o2u.select(pool, LOCAL, 2, generator)
    state = o2u.state_dict()
    counts = dict(zip(state["now_ids"].tolist(), state["now_counts"].tolist(), strict=True))
    assert counts == {row: times for row, times in seen.items() if times}


def test_memory_holds_two_cycles_and_no_more() -> None:
    o2u = O2U(cycle=5)
    for pool in sliding_slots(0, 200):
        select(o2u, pool)
        state = o2u.state_dict()
        assert len(state["now_ids"]) <= 30 + 2 * 4
        assert len(state["before_ids"]) <= 30 + 2 * 4
    assert state["before_ids"].min() >= 2 * 190


def test_at_most_k_and_each_can_be_picked() -> None:
    pool = pool_of(torch.arange(30.0))
    picks = [select(O2U(), pool, 4, seed) for seed in range(100)]
    assert all(len(rows) == 4 for rows in picks)
    assert {row for rows in picks for row in rows} == set(range(21))


def test_ties_are_broken_at_random() -> None:
    o2u = O2U(keep=0.1)
    picked = [select(o2u, pool_of(torch.full((30,), 0.1)), 3, seed) for seed in range(100)]
    assert all(len(rows) == 3 for rows in picked)
    assert {row for rows in picked for row in rows} == set(range(30))


def test_one_row() -> None:
    assert select(O2U(keep=0.1), pool_of(torch.tensor([3.0]))) == [0]


def test_losses_that_are_not_finite_are_neither_picked_nor_remembered() -> None:
    view = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0] * 1e10 / 1e10)
    o2u, bad = O2U(), pool_of(torch.tensor([0.5, 1.0, 9.0, 1e35, torch.nan]))  # 1e45 is infinite
    rows = o2u.select(bad, view, 9, Generator().manual_seed(0)).rows.tolist()
    assert set(rows) == {0, 1}
    assert sorted(o2u.state_dict()["now_ids"].tolist()) == [0, 1, 2]
    assert o2u.state_dict()["now_sums"].isfinite().all()
    assert select(o2u, bad[torch.tensor([4])]) == []


@pytest.mark.parametrize("slots", [1, 9, 10, 11])
def test_saved_and_resumed_equals_unbroken(slots: int) -> None:
    pools = sliding_slots(3, 30)
    unbroken, first, second = (O2U(cycle=5) for _ in range(3))
    for pool in pools[:slots]:
        select(unbroken, pool)
        select(first, pool)
    second.load_state_dict(first.state_dict())
    for seed, pool in enumerate(pools[slots:]):
        assert select(second, pool, 5, seed) == select(unbroken, pool, 5, seed)
    torch.testing.assert_close(second.state_dict(), unbroken.state_dict(), rtol=0, atol=0)
    assert repr(second) == repr(O2U(cycle=5))


def test_the_rate_follows_the_formula() -> None:
    """s(t) = (1 + (t - 1) mod c) / c and r(t) = (1 - s(t)) r_1 + s(t) r_2, for t from 1 on."""
    weights = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": weights[0]}, {"params": weights[1], "lr": 0.5}], lr=3.0)
    rates = cyclical(optimizer, slots=10, high=0.01, low=0.001)
    for t in range(1, 35):
        share = (1 + (t - 1) % 10) / 10
        expected = (1 - share) * 0.01 + share * 0.001
        assert [group["lr"] for group in optimizer.param_groups] == [pytest.approx(expected)] * 2
        optimizer.step()
        rates.step()


@pytest.mark.parametrize("wrong", [{"keep": 0.0}, {"keep": 1.1}, {"cycle": 0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        O2U(**wrong)


@pytest.mark.parametrize("wrong", [(0, 1.0, 0.1), (5, 0.1, 1.0), (5, 0.1, -0.1)])
def test_cycles_are_checked(wrong: tuple[int, float, float]) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with pytest.raises(ValueError, match="cycle"):
        cyclical(optimizer, *wrong)
