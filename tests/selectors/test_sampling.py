"""Drawing rows: each at most once, evenly, in time that the number drawn sets."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tamis.data import Picks
from tamis.selectors.sampling import SHORT, draw, first_of_each, lowest_marked, plan_rows


@pytest.mark.parametrize("count", [1, 5, SHORT, SHORT + 1, 10**6])
@pytest.mark.parametrize("k", [1, 4, 500])
def test_rows_are_drawn_once(count: int, k: int) -> None:
    rows = plan_rows(count, k, Generator().manual_seed(0))
    assert len(rows) == len(rows.unique()) == min(k, count)
    assert (rows >= 0).all()
    assert (rows < count).all()


@pytest.mark.parametrize("count", [800, 4 * SHORT])
def test_every_row_is_as_likely(count: int) -> None:
    generator = Generator().manual_seed(0)
    rows = torch.cat([plan_rows(count, count // 8, generator) for _ in range(400)])
    tenth = torch.bincount(rows * 10 // count, minlength=10) / len(rows)
    assert (tenth - 0.1).abs().max() < 0.01
    first = torch.stack([plan_rows(count, 3, generator)[0] for _ in range(4000)])
    assert abs(first.float().mean().item() / count - 0.5) < 0.03, "the order is not random"


def test_drawing_few_of_many_makes_no_list_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("went through all rows")

    monkeypatch.setattr(torch, "randperm", refuse)
    assert len(plan_rows(10**12, 100, Generator().manual_seed(0))) == 100


def test_the_first_of_each_keeps_the_order() -> None:
    assert first_of_each(torch.tensor([5, 3, 5, 5, 1, 3, 0])).tolist() == [5, 3, 1, 0]


def test_draw_takes_from_what_is_given() -> None:
    rows = torch.tensor([3, 8, 9])
    assert sorted(draw(rows, 9, Generator().manual_seed(0)).tolist()) == [3, 8, 9]


def test_marked_rows_come_first_and_are_marked() -> None:
    marked = torch.tensor([False, True, False, True, True])
    keys = torch.tensor([0.0, 0.9, 0.1, 0.2, 0.5])
    rows, real = lowest_marked(marked, keys, 4)
    assert rows[real].tolist() == [3, 4, 1]
    assert lowest_marked(marked, keys, 2)[0].tolist() == [3, 4]
    assert len(lowest_marked(marked, keys, 9)[0]) == 5


def test_only_real_picks_are_picks() -> None:
    picks = Picks.only(torch.tensor([4, 2, 7]), torch.tensor([True, False, True]))
    assert picks.rows.tolist() == [4, 7]
    device = torch.device("meta")  # stands for one that must not be waited for
    rows, real = torch.arange(3, device=device), torch.ones(3, dtype=torch.bool, device=device)
    assert Picks.only(rows, real).weights.shape == (3,)


def test_real_picks_keep_their_own_targets() -> None:
    real, targets = torch.tensor([True, False, True]), torch.eye(3)
    picks = Picks.only(torch.tensor([4, 2, 7]), real, targets=targets)
    assert picks.rows.tolist() == [4, 7]
    assert torch.equal(picks.targets, targets[[0, 2]])
    assert picks.weights is None
    assert Picks.only(torch.tensor([4, 2, 7]), real).targets is None
    assert len(Picks.only(torch.tensor([4]), torch.tensor([False]), targets=targets[:1])) == 0


def test_leaving_out_what_is_no_pick_keeps_the_mean() -> None:
    losses, weights = torch.tensor([1.0, 5.0, 3.0, 2.0]), torch.tensor([2.0, 0.0, 0.0, 1.0])
    picks = Picks(torch.arange(4), weights, targets=torch.eye(4)).real()
    assert picks.rows.tolist() == [0, 3]
    assert torch.equal(picks.targets, torch.eye(4)[[0, 3]])
    torch.testing.assert_close(
        (losses[picks.rows] * picks.weights).mean(), (losses * weights).mean()
    )
