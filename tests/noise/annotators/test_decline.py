"""The split of an annotator's labels where he became worse."""

from __future__ import annotations

import math

import numpy as np

from tamis.noise.annotators.decline import LEAST_FALL, LEVEL, STEP, split


def naive(agrees: list[bool], expected: list[float]) -> tuple[float, int]:
    """Return the level of the best split of one annotator's labels, and its newest labels."""
    best, place = 0.0, STEP
    wrong, rest = agrees.count(False), sum(1 - e for e in expected)
    right, all_right = agrees.count(True), sum(expected)
    for newest in range(STEP, len(agrees), STEP):
        new, old = agrees[:newest], agrees[newest:]
        ratio = 0.0
        for value, total, exposed, of in (
            (True, right, sum(expected[:newest]), all_right),
            (False, wrong, sum(1 - e for e in expected[:newest]), rest),
        ):
            for part, share in ((new, exposed / of), (old, 1 - exposed / of)):
                if found := part.count(value):
                    ratio += found * math.log(found / (total * share))
        fall = old.count(True) / len(old) - new.count(True) / len(new)
        more = new.count(False) * rest > wrong * sum(1 - e for e in expected[:newest])
        if more and fall >= LEAST_FALL and ratio > best:
            best, place = ratio, newest
    return math.sqrt(2 * best), place


def test_it_is_the_loop() -> None:
    rng = np.random.default_rng(0)
    agrees = rng.random((6, 60)) < np.where(np.arange(60) < 20, 0.4, 0.8)
    expected = rng.uniform(0.3, 0.9, (6, 60))
    found = split(agrees, expected, np.ones_like(agrees))
    for at in range(6):
        level, newest = naive(agrees[at].tolist(), expected[at].tolist())
        assert np.isclose(found.level[at], level)
        assert found.newest[at] == newest


def test_one_who_becomes_worse_is_found_and_one_who_becomes_better_is_not() -> None:
    worse = np.arange(400) % 10 < np.where(np.arange(400) < 100, 2, 8)
    found = split(np.stack([worse, worse[::-1]]), np.full((2, 400), 0.7), np.ones((2, 400), bool))
    assert found.level[0] > LEVEL > found.level[1]
    assert found.newest[0] == 100
    assert (found.before[0], found.after[0]) == (0.8, 0.2)


def test_harder_rows_are_no_decline() -> None:
    agrees = np.arange(400) % 10 < np.where(np.arange(400) < 100, 4, 8)
    expected = np.where(np.arange(400) < 100, 0.4, 0.8)
    found = split(agrees[None], expected[None], np.ones((1, 400), bool))
    assert found.level[0] < LEVEL / 2


def test_labels_without_a_consensus_do_not_count() -> None:
    agrees = np.zeros((1, 400), bool)
    agrees[0, 200:] = True
    counted = np.zeros((1, 400), bool)
    assert split(agrees, np.full((1, 400), 0.7), counted).level[0] == 0
