"""Adaptive-k against the loop of the authors' notebook."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.selectors import AdaptiveK

LOCAL = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0])  # inputs are losses


def pool_of(losses: Tensor) -> Samples:
    return Samples.of(losses[:, None], torch.zeros(len(losses), dtype=torch.long))


def slots_of(seed: int, slots: int, rows: int = 50) -> list[Tensor]:
    """Losses that fall from slot to slot, as those of a model that learns."""
    generator = Generator().manual_seed(seed)
    return [
        4 * torch.rand(rows, generator=generator, dtype=torch.float64) / (1 + 0.1 * slot)
        for slot in range(slots)
    ]


def notebook(slots: list[Tensor], beta1: float, beta2: float) -> list[set[int]]:
    m = v = 0.0
    passed = []
    for losses in slots:
        mean = sum(losses.tolist()) / len(losses)
        m = beta1 * m + (1 - beta1) * mean
        v = beta2 * v + (1 - beta2) * mean * mean
        threshold = m / (math.sqrt(v) + 0.00000001)
        passed.append({row for row, loss in enumerate(losses.tolist()) if loss <= threshold})
    return passed


def select(adaptive: AdaptiveK, losses: Tensor, k: int = 1000, seed: int = 0) -> list[int]:
    picks = adaptive.select(pool_of(losses), LOCAL, k, Generator().manual_seed(seed))
    return picks.rows.tolist()


@pytest.mark.parametrize("case", range(10))
@pytest.mark.parametrize("decays", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.0)])
def test_slot_after_slot_as_in_the_notebook(case: int, decays: tuple[float, float]) -> None:
    slots, adaptive = slots_of(case, 40), AdaptiveK(*decays)
    expected = notebook(slots, *decays)
    assert {len(rows) < 50 for rows in expected} >= {True}
    for losses, rows in zip(slots, expected, strict=True):
        assert rows
        assert set(select(adaptive, losses)) == rows


def test_at_most_k_and_each_can_be_picked() -> None:
    losses = torch.arange(50.0) / 5
    picks = [select(AdaptiveK(), losses, 3, seed) for seed in range(100)]
    assert all(len(rows) == 3 for rows in picks)
    (expected,) = notebook([losses.double()], 0.9, 0.999)
    assert {row for rows in picks for row in rows} == expected


def test_where_none_is_under_the_threshold_all_are_let_in() -> None:
    adaptive = AdaptiveK(0.0, 0.0)  # the threshold is 1
    assert sorted(select(adaptive, torch.full((20,), 2.3))) == list(range(20))
    assert select(adaptive, torch.tensor([2.3, 0.9, 2.3])) == [1]


def test_ties_are_broken_at_random() -> None:
    picked = [select(AdaptiveK(), torch.ones(30), 5, seed) for seed in range(60)]
    assert all(len(rows) == 5 for rows in picked)
    assert {row for rows in picked for row in rows} == set(range(30))


def test_one_row_and_a_loss_of_zero() -> None:
    assert select(AdaptiveK(), torch.tensor([3.0])) == [0]
    assert sorted(select(AdaptiveK(), torch.zeros(4))) == [0, 1, 2, 3]


def test_losses_that_are_not_finite_are_neither_picked_nor_remembered() -> None:
    view = ModelView(nn.Identity(), criterion=lambda logits, _: logits[:, 0] * 1e10 / 1e10)
    with_bad, without = AdaptiveK(), AdaptiveK()
    good = torch.tensor([0.5, 1.0, 9.0])
    bad = torch.cat([good, torch.tensor([1e35, torch.nan])])  # 1e35 * 1e10 is infinite
    rows = with_bad.select(pool_of(bad), view, 9, Generator().manual_seed(0)).rows.tolist()
    assert set(rows) == set(select(without, good)) == {0, 1}
    torch.testing.assert_close(with_bad.state_dict(), without.state_dict())
    assert select(with_bad, torch.full((4,), torch.nan)) == []
    torch.testing.assert_close(with_bad.state_dict(), without.state_dict())


def test_saved_and_resumed_equals_unbroken() -> None:
    slots = slots_of(3, 20)
    unbroken, first, second = AdaptiveK(), AdaptiveK(), AdaptiveK()
    for losses in slots[:10]:
        select(unbroken, losses)
        select(first, losses)
    second.load_state_dict(first.state_dict())
    for seed, losses in enumerate(slots[10:]):
        assert select(second, losses, 5, seed) == select(unbroken, losses, 5, seed)
    assert torch.equal(second.state_dict()["averages"], unbroken.state_dict()["averages"])
    assert repr(second) == repr(AdaptiveK())


@pytest.mark.parametrize("decays", [(1.0, 0.9), (0.9, -0.1)])
def test_decays_are_checked(decays: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="decay"):
        AdaptiveK(*decays)
