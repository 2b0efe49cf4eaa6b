"""Feeds whose rows and labels come apart."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tamis.data import Events, Samples
from tamis.sources import Columns, Feed, Items, Rejects, Row

TO_ROW = Columns(["a"], label="kind", classes=["ant", "bee"], id="id", time="at")


def feed_of(*records: Any, events: bool = True, to_row: Any = TO_ROW, rows: int = 10) -> Feed:
    return Feed(Items(records, rows=rows), to_row, rejects=Rejects(), events=events, most_bad=1.0)


def test_rows_with_their_labels_come_as_samples() -> None:
    (came,) = feed_of({"id": 4, "a": 1, "kind": "bee"})
    assert isinstance(came, Samples)


def test_rows_and_labels_come_in_their_order() -> None:
    feed = feed_of(
        {"id": "x", "kind": "bee"},
        {"id": "x", "a": 1.5},
        {"id": "y", "a": 2.5, "kind": "ant", "at": 7},
        {"id": "y", "kind": None},
    )
    ((came, names),) = feed.named()
    assert isinstance(came, Events)
    assert came.samples.inputs.tolist() == [[1.5], [2.5]]
    assert came.samples.labels.tolist() == [-1, 0]
    assert names == ["x", "y"]
    assert [(e.name, e.row, e.label, e.time) for e in came.events] == [
        ("x", None, 1, None), ("x", 0, None, None), ("y", 1, 0, 7.0), ("y", None, None, None),
    ]  # fmt: skip
    assert came.events[0].id == came.events[1].id == came.samples.ids[0]
    assert feed.stats().bad == 0


def test_labels_alone_are_an_item_too() -> None:
    (came,) = feed_of({"id": 1, "kind": "ant"})
    assert isinstance(came, Events)
    assert not len(came.samples)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"id": 1, "a": 2}, "label missing"),
        ({"id": 1, "kind": "ant"}, "inputs missing"),
        ({"id": 1, "kind": ""}, "label missing"),
    ],
)
def test_a_feed_without_events_rejects_both(record: dict[str, Any], reason: str) -> None:
    feed = feed_of(record, events=False)
    assert not list(feed)
    assert feed.rejects.counts == {reason: 1}


def test_bad_ones_are_rejected_alone() -> None:
    feed = feed_of(
        {"id": 1, "a": "x", "kind": "ant"},
        {"id": 2, "kind": "cow"},
        {"id": 3},
        {"id": 4, "a": 1, "at": "noon"},
        {"id": 5, "a": 1},
    )
    (came,) = feed
    assert [event.id for event in came.events] == [5]
    assert feed.rejects.total == 4


def test_a_function_may_return_rows_without_labels_and_labels_without_rows() -> None:
    made = {
        "row": Row([1.0], None, 3),  # type: ignore[arg-type]
        "label": Row(None, 1, 3),
        "no id": Row(None, 1),
    }
    feed = feed_of("row", "label", "no id", to_row=made.__getitem__)
    (came,) = feed
    assert [(event.id, event.row, event.label) for event in came.events] == [
        (3, 0, None),
        (3, None, 1),
    ]
    assert feed.rejects.counts == {"id missing": 1}


def test_a_feed_that_continues_from_an_offset_has_the_same_events() -> None:
    records = [{"id": n // 2, **({"a": n} if n % 2 else {"kind": "bee"})} for n in range(12)]
    complete = [came.events for came in feed_of(*records, rows=3)]
    first = feed_of(*records, rows=3)
    begun = [came.events for came in islice(first, 2)]
    again = Feed(Items(records, rows=3), TO_ROW, offset=first.offset, events=True)
    assert begun + [came.events for came in again] == complete


def test_a_look_ahead_changes_nothing() -> None:
    feed = feed_of({"id": 1, "kind": "bee"}, {"id": 1, "a": 3}, rows=1)
    assert [len(samples) for samples in feed.peek(1)] == [0, 1]
    assert [len(came.events) for came in feed] == [1, 1]
