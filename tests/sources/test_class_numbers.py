"""Open sets of classes: names that come up in a stream, their numbers, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tamis.sources import BadRecordError, Batch, Columns, Feed, SchemaRows, infer_schema
from tamis.sources.class_numbers import BEYOND_LIMIT, ClassNumbers


class Given:
    """Records that a test has at hand, five at a time."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def read(self, offset: Any = None) -> Iterator[Batch]:
        for first in range(offset or 0, len(self.records), 5):
            part = self.records[first : first + 5]
            yield Batch(part, list(range(first, first + len(part))), first + len(part), None)

    def acknowledge(self, offset: Any) -> None: ...

    def behind(self) -> int | None:
        return None

    def close(self) -> None: ...


def records(kinds: str) -> list[dict[str, Any]]:
    return [{"a": float(at), "b": at % 3, "kind": kind} for at, kind in enumerate(kinds)]


def by_columns(max_classes: int | None = 4) -> Columns:
    return Columns(["a", "b"], label="kind", classes=["x", "y"], max_classes=max_classes)


def by_schema(max_classes: int | None = 4) -> SchemaRows:
    rows = records("xyxy")
    schema = infer_schema(rows, label="kind", classes=["x", "y"], named=True)
    return SchemaRows(schema, max_classes)


@pytest.fixture(params=[by_columns, by_schema])
def to_row(request: pytest.FixtureRequest) -> Any:
    return request.param


def labels(feed: Feed) -> list[int]:
    return [label for samples in feed for label in samples.labels.tolist()]


def test_new_names_are_numbered_as_they_come(to_row: Any) -> None:
    feed = Feed(Given(records("xyzxyxwzyx")), to_row())
    assert labels(feed) == [0, 1, 2, 0, 1, 0, 3, 2, 1, 0]
    assert feed.offset["classes"] == ["x", "y", "z", "w"]


def test_beyond_the_limit_the_reason_is_its_own(to_row: Any) -> None:
    feed = Feed(Given(records("xyzwvzuxxx")), to_row())
    assert labels(feed) == [0, 1, 2, 3, 2, 0, 0, 0]
    assert feed.rejects.summary() == f"2 rows rejected: 2 x {BEYOND_LIMIT}."


def test_a_closed_set_stays_closed(to_row: Any) -> None:
    feed = Feed(Given(records("xyzxy")), to_row(None))
    assert labels(feed) == [0, 1, 0, 1]
    assert "classes" not in feed.offset
    assert "label is not a class" in feed.rejects.summary()


def test_an_offset_continues_with_its_names(to_row: Any) -> None:
    given = records("xyzxyxwzyx")
    complete = labels(Feed(Given(given), to_row()))
    first = Feed(Given(given), to_row())
    begun = next(iter(first)).labels.tolist()
    again = Feed(Given(given), to_row(), offset=first.offset)
    assert begun + labels(again) == complete
    assert again.offset["classes"] == ["x", "y", "z", "w"]


def test_looking_ahead_names_nothing(to_row: Any) -> None:
    feed = Feed(Given(records("xyzxyxwzyx")), to_row())
    seen = feed.peek(10)
    assert [label for part in seen for label in part.labels.tolist()][6] == 3
    assert feed.offset["classes"] == list(feed.to_row.numbers) == ["x", "y"]  # type: ignore[attr-defined]
    assert labels(feed) == [0, 1, 2, 0, 1, 0, 3, 2, 1, 0]


def test_a_record_with_bad_inputs_names_no_class(to_row: Any) -> None:
    given = records("xqzxw")
    given[1]["a"] = "nothing"
    feed = Feed(Given(given), to_row(5))
    assert labels(feed) == [0, 2, 0, 3]
    assert feed.offset["classes"] == ["x", "y", "z", "w"]


def test_numbers_as_a_loop_would_give_them() -> None:
    numbers = ClassNumbers(["x", "y"], max_classes=5)
    assert [numbers.add(name) for name in ("a", "b", "c")] == [2, 3, 4]
    with pytest.raises(BadRecordError, match="after 5 classes"):
        numbers.add("d")
    assert numbers.keep([4, 0, 3, 4], first=2) == {4: 2, 3: 3}
    assert list(numbers) == ["x", "y", "c", "b"]


def test_where_labels_are_numbers_they_stay_so() -> None:
    numbers = ClassNumbers(2, max_classes=6)
    assert numbers.add("4") == 4
    assert list(numbers) == ["0", "1", "2", "3", "4"]
    assert numbers.keep([0, 3], first=2) == {2: 2, 3: 3}
    assert list(numbers) == ["0", "1", "2", "3"]
    with pytest.raises(BadRecordError, match="beyond the limit"):
        numbers.add("6")
    for name in ("cow", "-1", "04", "1.5"):
        with pytest.raises(BadRecordError, match="not a class"):
            numbers.add(name)


def test_a_limit_below_the_first_classes_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="3 classes are more than max_classes=2"):
        ClassNumbers(3, max_classes=2)
