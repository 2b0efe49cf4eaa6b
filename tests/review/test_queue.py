"""The queue: bounded, none twice, the old fading, the decided out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.review import ReviewQueue
from tamis.runs import Suspect


def suspect(name: str, score: float) -> Suspect:
    return Suspect(name, "cat", "dog", score)


def ids(queue: ReviewQueue) -> list[str]:
    return [found.id for found in queue.ranked()]


def test_the_worst_is_first_and_none_is_there_twice() -> None:
    queue = ReviewQueue(size=3)
    queue.update([suspect("a", 0.6), suspect("b", 0.9), suspect("a", 0.95)], 0)
    assert ids(queue) == ["a", "b"]


def test_the_least_goes_where_there_is_no_room() -> None:
    queue = ReviewQueue(size=2)
    queue.update([suspect("a", 0.6), suspect("b", 0.9), suspect("c", 0.7)], 0)
    assert ids(queue) == ["b", "c"]


def test_old_ones_fade() -> None:
    queue = ReviewQueue(size=2, half_life=100)
    queue.update([suspect("old", 0.9)], 0)
    queue.update([suspect("new", 0.8)], 50)
    assert ids(queue) == ["new", "old"]  # 0.9 * 0.5 ** 0.5 = 0.64 < 0.8
    queue.update([suspect("old", 0.9)], 51)
    assert ids(queue) == ["old", "new"]


def test_scored_again_the_age_stays() -> None:
    queue = ReviewQueue(half_life=100)
    queue.update([suspect("a", 0.9), suspect("b", 0.8)], 0)
    queue.update([suspect("c", 0.4)], 100)
    queue.rescore("b", 0.99, "fox")
    assert [(found.id, found.suggested) for found in queue.ranked()] == [
        ("b", "fox"), ("a", "dog"), ("c", "dog"),
    ]  # fmt: skip
    queue.remove("a")
    queue.remove("never there")
    queue.rescore("never there", 0.9, "dog")
    assert ids(queue) == ["b", "c"]


def test_what_is_decided_is_out_until_it_is_undone() -> None:
    queue = ReviewQueue()
    queue.update([suspect("a", 0.9), suspect("b", 0.8)], 0)
    queue.set_decided({"a"})
    queue.update([suspect("a", 0.9)], 1)
    assert ids(queue) == ["b"]
    queue.set_decided(set())
    queue.update([suspect("a", 0.9)], 2)
    assert ids(queue) == ["a", "b"]


@pytest.mark.parametrize("settings", [{"size": 0}, {"half_life": 0}])
def test_room_and_time_are_needed(settings: dict) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ReviewQueue(**settings)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0.5, 1)), max_size=60))
def test_it_holds_the_worst_of_what_was_offered_last(offers: list[tuple[str, float]]) -> None:
    queue = ReviewQueue(size=100)
    for name, score in offers:
        queue.update([suspect(name, score)], 0)
    latest = dict(offers)
    assert {found.id: found.score for found in queue.ranked()} == latest
    scores = [found.score for found in queue.ranked()]
    assert scores == sorted(scores, reverse=True)


def test_it_is_restored_from_its_state() -> None:
    queue, other = ReviewQueue(half_life=100), ReviewQueue(half_life=100)
    queue.update([suspect("a", 0.9), Suspect("b", "cat", "dog", 0.8, 7, 3)], 4)
    other.load_state_dict(queue.state_dict())
    assert other.ranked() == queue.ranked()
    assert other.now == 4
