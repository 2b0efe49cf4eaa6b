"""Annotators by name, from records and from tables with a line for each label."""

from __future__ import annotations

from typing import Any

import torch

from tamis.data import Events
from tamis.sources import Columns, Feed, SchemaRows, Validator, open_table
from tamis.sources.annotator_column import AnnotatorColumn
from tamis.sources.items import Items
from tamis.sources.schema import infer_schema

RECORDS: list[dict[str, Any]] = [
    {"id": "r1", "x": 1.0, "y": "a", "who": "Ann"},
    {"id": "r2", "x": 2.0, "y": "b", "who": "Bob"},
    {"id": "r1", "y": "b", "who": "Bob"},
    {"id": "r3", "x": 3.0, "y": "a", "who": None},
    {"id": "r2", "y": None, "who": "Bob"},
    {"id": "r3", "y": "b", "who": 7},
]


def columns() -> Columns:
    return Columns(["x"], "y", ["a", "b"], "id", annotator="who")


def rows_by_schema() -> SchemaRows:
    schema = infer_schema({"x": [1.0, 2.0]}, label="y", classes=["a", "b"], id="id")
    return SchemaRows(schema, annotator="who")


def test_both_readers_number_annotators_as_they_come() -> None:
    for to_row in (columns(), rows_by_schema()):
        assert [to_row(record).annotator for record in RECORDS] == [0, 1, 1, None, 1, 2]


def feed_of(to_row: Any, offset: Any = None) -> Feed:
    return Feed(Items(RECORDS, rows=2), to_row, offset=offset, events=True)


def test_a_feed_keeps_the_names_in_its_offset() -> None:
    for make in (columns, rows_by_schema):
        unbroken = feed_of(make())
        events = [e for came in unbroken if isinstance(came, Events) for e in came.events]
        assert [e.annotator for e in events] == [0, 1, 1, None, 1, 2]
        assert unbroken.annotator_names == ["Ann", "Bob", "7"]
        begun = feed_of(make())
        next(iter(begun))
        assert begun.offset["annotators"] == ["Ann", "Bob"]
        resumed = feed_of(make(), begun.offset)
        rest = [e for came in resumed if isinstance(came, Events) for e in came.events]
        assert rest == events[2:]
        assert resumed.annotator_names == unbroken.annotator_names


def test_without_a_column_nothing_changes() -> None:
    feed = Feed(Items(RECORDS[:2], rows=2), Columns(["x"], "y", ["a", "b"], "id"))
    assert "annotators" not in feed.offset
    assert not any(isinstance(came, Events) for came in feed)
    assert feed.annotator_names == []


def test_beyond_the_limit_nobody_is_known() -> None:
    column = AnnotatorColumn("who", most=2)
    found = [column({"who": name}) for name in ("Ann", "Bob", "Cyd", "Ann", " Bob ")]
    assert found == [0, 1, None, 0, 1]


def crowd_table(**settings: Any) -> Any:
    table = {
        "task": ["t1", "t2", "t1", "t3", "t2", "t1"],
        "who": ["Ann", "Ann", "Bob", "", "Cyd", "Cyd"],
        "x": [1.0, 2.0, 1.0, 3.5, 2.0, 1.0],
        "y": ["a", "b", "a", "b", "a", "b"],
    }
    return open_table(table, "y", Validator(), annotator="who", rows_per_slot=4, **settings)


def test_lines_of_one_id_are_one_row() -> None:
    table = crowd_table(id_column="task")
    parts = [samples for samples, _ in table.play().named()]
    assert torch.cat([part.ids for part in parts]).tolist() == [0, 1, 0, 3, 1, 0]
    assert torch.cat([part.annotators for part in parts]).tolist() == [0, 0, 1, -1, 2, 2]
    assert table.play().annotator_names == ["Ann", "Bob", "Cyd"]
    assert table.crowd.note(table.rows) == "6 labels of 3 rows by 3 annotators"
    assert [column.name for column in table.schema.inputs] == ["x"]


def test_without_ids_every_line_is_a_row() -> None:
    table = crowd_table(drop=["task"])
    (first, _), *_ = table.play().named()
    assert first.ids.tolist() == [0, 1, 2, 3]
    assert table.crowd.note(table.rows) == "6 labels of 6 rows by 3 annotators"
