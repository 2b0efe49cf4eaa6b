"""Chains through the labels of a row and of a phase."""

from __future__ import annotations

import numpy as np

from tamis.noise.annotators.votes import Votes


def votes_of(parts: int, total: int = 200) -> Votes:
    """Return the same labels, added in so many parts."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, most, total) for most in (30, 5, 3)]
    votes = Votes()
    votes.add_phases(5)
    for part in zip(*(np.array_split(column, parts) for column in columns), strict=True):
        votes.add(*part)
    return votes


def test_parts_make_no_difference() -> None:
    one, other = votes_of(1).state_dict(), votes_of(7).state_dict()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_chains_lead_through_all_labels() -> None:
    votes = votes_of(3)
    for row in range(30):
        assert votes.of_rows(np.array([row])).tolist() == np.flatnonzero(votes.rows == row).tolist()
    phases = np.arange(5)
    for phase, numbers in zip(phases, votes.newest(phases, 10), strict=True):
        assert numbers.tolist() == votes.of_phase(phase)[::-1][:10].tolist()
        assert votes.orders[votes.of_phase(phase)].tolist() == list(range(votes.given[phase]))


def test_moved_labels_have_chains_of_their_own() -> None:
    votes = votes_of(2)
    before = votes.of_phase(2)
    votes.add_phases(6)
    moved = votes.move(2, 7, 5)
    assert moved.tolist() == before[-7:].tolist() == votes.of_phase(5).tolist()
    newest = votes.newest(np.array([2, 5]), 100)
    assert [found[found >= 0][::-1].tolist() for found in newest] == [
        before[:-7].tolist(),
        moved.tolist(),
    ]
    assert votes.given[[2, 5]].tolist() == [len(before) - 7, 7]
    assert votes.weights(moved, 3.0).tolist() == (0.5 ** (np.arange(6, -1, -1) / 3)).tolist()
