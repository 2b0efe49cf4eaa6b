"""Records to rows, by column names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tamis.sources import BadRecordError, Columns

to_row = Columns(["a", "b"], label="kind", classes=["ant", "bee"])


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (1, 2.5, [1, 2.5]),
        ("1", " 2.5 ", [1, 2.5]),
        (1, "2", [1, 2]),
        (True, Decimal("2.5"), [1, 2.5]),
        (np.float64(1), np.int32(2), [1, 2]),
        ([1, 2], 3, [1, 2, 3]),
        ([[1], [2]], (3, 4), [1, 2, 3, 4]),
    ],
)
def test_numbers_are_taken_in_order(a: Any, b: Any, wanted: list[float]) -> None:
    row = to_row({"b": b, "a": a, "kind": "bee"})
    assert row.input.dtype == np.float32
    assert row.input.tolist() == wanted
    assert row.label == 1


def test_a_single_column_keeps_its_shape() -> None:
    one = Columns(["pixels"], label="kind", classes=3)
    assert one({"pixels": [[1, 2, 3], [4, 5, 6]], "kind": 2}).input.shape == (2, 3)
    assert one({"pixels": 1, "kind": 2}).input.shape == (1,)
    assert one({"pixels": "7", "kind": 2}).input.tolist() == [7]


@pytest.mark.parametrize("label", [1, "1", " 1 ", 1.0, np.int64(1), b"1"])
def test_labels_may_be_numbers_or_text(label: Any) -> None:
    record = {"a": 0, "b": 0, "kind": label}
    assert Columns(["a", "b"], label="kind", classes=2)(record).label == 1
    assert Columns(["a", "b"], label="kind", classes=["0", "1"])(record).label == 1


def test_ids_are_integers_or_made_from_text_reproducibly() -> None:
    named = Columns(["a"], label="kind", classes=2, id="name")
    ids = [named({"a": 0, "kind": 0, "name": name}).id for name in (7, "row 7", "row 8", "row 7")]
    assert ids[0] == 7
    assert ids[1] == ids[3] == 8856197639109084310
    assert ids[1] != ids[2]
    assert named({"a": 0, "kind": 0, "name": 2**63 - 1}).id == 2**63 - 1
    for odd in (-1, 2**70, True, 1.5, b"x", "\ud800"):
        number = named({"a": 0, "kind": 0, "name": odd}).id
        assert number is not None
        assert 0 <= number < 2**63


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"a": 1, "kind": "ant"}, "column missing"),
        ({"a": "x", "b": 1, "kind": "ant"}, "inputs are not numbers"),
        ({"a": {}, "b": 1, "kind": "ant"}, "inputs are not numbers"),
        ({"a": [[1], [1, 2]], "b": 1, "kind": "ant"}, "inputs are not numbers"),
        ({"a": 10**400, "b": 1, "kind": "ant"}, "inputs are not numbers"),
        ({"a": 1, "b": 1, "kind": "cow"}, "label is not a class"),
        ({"a": 1, "b": 1, "kind": ["ant"]}, "label is not a class"),
        ([1, 2], "not a mapping"),
        ("a", "not a mapping"),
        (None, "not a mapping"),
    ],
)
def test_what_is_no_row_has_a_reason(record: Any, reason: str) -> None:
    with pytest.raises(BadRecordError) as caught:
        to_row(record)
    assert caught.value.reason == reason


@pytest.mark.parametrize("given", [{}, {"kind": None}, {"kind": float("nan")}, {"kind": " "}])
def test_a_record_may_lack_its_label(given: dict[str, Any]) -> None:
    row = to_row({"a": 1, "b": 1} | given)
    assert row.label is None
    assert row.input is not None


TIMED = Columns(["a", "b"], label="kind", classes=["ant", "bee"], id="name", time="at")


@pytest.mark.parametrize(
    ("record", "label"),
    [
        ({"name": "x", "kind": "bee"}, 1),
        ({"name": "x", "kind": "bee", "a": None, "b": ""}, 1),
        ({"name": "x", "kind": None}, None),
        ({"name": "x", "kind": "", "a": "", "b": " "}, None),
    ],
)
def test_a_record_of_an_id_without_inputs_is_a_label_for_it(
    record: dict[str, Any], label: int | None
) -> None:
    row = TIMED(record | {"at": 5})
    assert row.input is None
    assert (row.label, row.name, row.time) == (label, "x", 5.0)


def test_an_id_alone_is_rejected() -> None:
    with pytest.raises(BadRecordError, match="neither inputs nor label"):
        TIMED({"name": "x"})


@pytest.mark.parametrize(
    ("at", "seconds"),
    [
        (None, None), ("", None), (1.5, 1.5), ("1700000000", 1.7e9),
        ("1970-01-01T01:00:00+01:00", 0.0), ("1970-01-02", 86400.0),
    ],
)  # fmt: skip
def test_times_are_seconds_or_iso_8601(at: Any, seconds: float | None) -> None:
    assert TIMED({"a": 1, "b": 2, "kind": "ant", "name": 1, "at": at}).time == seconds


@pytest.mark.parametrize("at", ["yesterday", "inf", "nan", [1]])
def test_a_time_that_is_none_rejects_the_record(at: Any) -> None:
    with pytest.raises(BadRecordError, match="time not understood"):
        TIMED({"a": 1, "b": 2, "kind": "ant", "name": 1, "at": at})
