"""New rows of a pool against a dict from places to ids."""

from __future__ import annotations

import torch
from torch import Generator

from tamis.selectors.plausible import FirstLooks


def seen(rule: FirstLooks) -> FirstLooks:
    """Return it after slots in which no row was new."""
    for _ in range(100):
        rule.update(torch.arange(4), torch.arange(4))
    return rule


def test_rows_are_new_where_a_place_has_another_id() -> None:
    """The pool grows, and rows give way to others."""
    generator, rule, new = Generator().manual_seed(0), FirstLooks(), 0
    pool, places = torch.arange(30), dict(enumerate(range(30)))
    for slot in range(200):
        rows = torch.randperm(len(pool), generator=generator)[:10]
        found = rule.update(pool, rows).tolist()
        expected = [places.get(row, -1) != pool[row].item() for row in rows.tolist()]
        places |= {row: pool[row].item() for row in rows.tolist()}
        assert not any(found) or found == expected
        if slot > 20:  # the share of new rows has come down to what it is
            assert found == expected
            new += sum(found)
        pool = pool.clone()
        pool[torch.randint(len(pool), (2,), generator=generator)] = (
            torch.tensor([2, 3]) * 1000 + slot
        )
        pool = torch.cat([pool, torch.tensor([10_000 + slot])])
    assert new > 100


def test_no_row_of_the_first_pool_is_new() -> None:
    assert not FirstLooks().update(torch.arange(4), torch.arange(4)).any()


def test_rows_of_ever_new_pools_are_not_new() -> None:
    rule, every = FirstLooks(), torch.arange(8)
    for slot in range(100):
        pool = torch.randperm(10_000, generator=Generator().manual_seed(slot))[:8]
        assert not rule.update(pool, every).any()


def test_rows_that_close_a_gap_are_not_new() -> None:
    rule = seen(FirstLooks())
    rule.remove(torch.tensor([0]))
    assert not rule.update(torch.tensor([1, 2, 3]), torch.arange(3)).any()
    assert rule.update(torch.tensor([1, 2, 0]), torch.arange(3)).tolist() == [False, False, True]


def test_saved_and_resumed_equals_unbroken() -> None:
    rule, resumed = seen(FirstLooks()), FirstLooks()
    assert resumed.state_dict() == {}
    resumed.load_state_dict(rule.state_dict())
    pool = torch.tensor([0, 9, 2, 3, 8])
    for one in (rule, resumed):
        assert one.update(pool, torch.arange(5)).tolist() == [False, True, False, False, True]
    assert torch.equal(rule.state_dict()["share_new"], resumed.state_dict()["share_new"])
