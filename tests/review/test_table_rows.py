"""Rows of a table as a reviewer sees them: as written, with what differs from the neighbours."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

from tamis import ModelView, Samples
from tamis.review import HeldRecords, TableRows, files, find_suspects, write_review_files
from tamis.review.differences import differing
from tamis.review.previews import LONGEST_CELL
from tamis.runs import SuspectIndex, read_lines
from tamis.sources import Validator, infer_schema, open_table

ROWS = [
    {"income": "1.200,50", "town": "Bern", "joined": "2020-01-01", "note": "a b c", "ok": "yes"},
    {"income": "9.000,00", "town": "Rome", "joined": "2021-01-01", "note": "d e f", "ok": "no"},
    {"income": "1.250,00", "town": "Bern", "joined": "2020-01-03", "note": "g h i", "ok": "no"},
    {"income": "1.100,00", "town": "Oslo", "joined": "2020-01-09", "note": "k l m", "ok": "no"},
    {"income": "1.150,00", "town": "Lima", "joined": "2020-01-05", "note": "", "ok": "no"},
]
KINDS = {"note": "text", "town": "category", "joined": "datetime", "ok": "boolean"}


def schema_of(rows: list[dict[str, str]]):
    columns = {name: [row[name] for row in rows] * 4 for name in rows[0]}
    return infer_schema(columns, kinds=KINDS)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, ["ok"]),  # the only one with yes; a text that nobody shares does not count
        ({"ok": "no"}, []),
        ({"ok": "no", "town": "Rome"}, ["town"]),
        ({"ok": "no", "income": "1.300,00"}, []),  # beyond all, but not by half their range
        ({"ok": "no", "income": "9.000,00"}, ["income"]),
        ({"ok": "no", "income": "-9.000,00"}, ["income"]),
        ({"ok": "no", "joined": "2021-05-05"}, ["joined"]),
        ({"ok": "no", "income": ""}, ["income"]),
        ({"ok": "no", "note": ""}, []),  # one of the neighbours lacks it, too
        ({"ok": "no", "income": "many"}, []),  # which cannot be compared
    ],
)
def test_columns_that_differ_from_the_neighbours(change: dict, differs: list[str]) -> None:
    rows = [ROWS[0] | change, *ROWS[1:]]
    found = differing(schema_of(ROWS), rows, np.array([0]), np.array([[2, 3, 4]]))
    assert found == [differs]


def test_neighbours_that_are_not_there_do_not_count() -> None:
    schema = schema_of(ROWS)
    own = np.array([1, 1, 1])
    near = np.array([[2, 3, -1], [2, -1, -1], [-1, -1, -1]])
    assert differing(schema, ROWS, own, near) == [["income", "town", "joined"], [], []]
    assert differing(schema, ROWS, np.empty(0, np.int64), np.empty((0, 0), np.int64)) == []


def test_a_value_that_all_but_one_lack() -> None:
    rows = [{"a": "1"}, {"a": None}, {"a": None}, {"a": "1"}]
    schema = infer_schema({"a": ["1", "2", ""] * 9})
    assert differing(schema, rows, np.array([0]), np.array([[1, 2]])) == [["a"]]
    assert differing(schema, rows, np.array([0]), np.array([[1, 3]])) == [[]]


def test_numbers_without_a_schema() -> None:
    rows = [{"x": 9.0}, {"x": 1.0}, {"x": 2.0}]
    assert differing(None, rows, np.array([0]), np.array([[1, 2]])) == [["x"]]


def test_all_columns_but_label_and_id_as_they_were_written() -> None:
    record = {"id": "7", "income": " 1.200,50 ", "town": "  ", "note": "x" * 9000, "y": "cat"}
    schema = infer_schema({"income": ["1,5"] * 3, "late": [1, 2, 3]}, label="y", id="id")
    table = TableRows(schema, lambda rows: {row: record for row in rows if row == 3})
    found = table.previews([3, 4])
    assert list(found) == [3]
    assert found[3]["columns"] == {
        "income": " 1.200,50 ", "town": None, "note": "x" * LONGEST_CELL + "…", "late": None,
    }  # fmt: skip


def test_records_of_a_stream_are_bounded_and_saved() -> None:
    held = HeldRecords(most_characters=200)
    held.update({row: {"a": row, "b": None, "c": "x" * 10} for row in range(20)})
    assert 3 < len(held) < 10
    assert held([19, 0]) == {19: {"a": "19", "b": "", "c": "x" * 10}}
    again = HeldRecords(200)
    again.load_state_dict(held.state_dict())
    for store in (held, again):
        store.update({30: {"a": "x"}, 19: {"a": "new"}})
    assert held(range(40)) == again(range(40))
    assert held([19]) == {19: {"a": "new"}}
    held.update({31: {"picture": b"x" * 500, "a": 1}}, {"picture"})
    assert held([31]) == {31: {"a": "1"}}


def test_records_of_rows_that_are_gone_are_forgotten() -> None:
    held = HeldRecords()
    held.update({row: {"a": row} for row in range(5_000)})
    held.forget(3_000, lambda: pytest.fail("there are not many yet"))
    held.forget(10, lambda: [3, 4, 9_999])
    assert sorted(held(range(5_000))) == [3, 4]


def test_of_wide_tables_fewer_rows_are_kept(
    tmp_path: Path, blobs: Samples, blob_model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CELLS", 30)  # of two columns and the label: ten rows
    view, rows = ModelView(blob_model), [(blobs, [str(row) for row in blobs.ids.tolist()])]
    suspects = find_suspects(view, rows, "abc", blobs)
    assert len(suspects) > 20
    wanted: list[int] = []

    def records(numbers: Collection[int]) -> dict[int, dict[str, str]]:
        wanted.extend(numbers)
        return {row: {"x": f"{row} km", "y": ""} for row in numbers}

    table = TableRows(infer_schema({"x": [1.5, 2.5], "y": [1.5, 2.5]}), records)
    write_review_files(
        tmp_path, suspects, rows, "abc", preview=lambda row: pytest.fail("all were written"),
        view=view, held=blobs, table=table,
    )  # fmt: skip
    index = SuspectIndex(tmp_path)
    complete = index.read(list(index))
    assert len(complete) == len(suspects)
    cells = [one.preview.get("columns") for one in complete]
    assert cells[:10] == [{"x": f"{one.row} km", "y": None} for one in complete[:10]]
    assert cells[10:] == [None] * (len(suspects) - 10)
    assert len(read_lines(tmp_path / "neighbours.jsonl")) == 2
    assert len(wanted) <= 10 + 2 * 5


def test_a_picture_has_its_own_proportions(tmp_path: Path) -> None:
    """A photo is not pressed into the square that the model sees."""
    for row in range(6):
        (tmp_path / "photos" / "ab"[row % 2]).mkdir(parents=True, exist_ok=True)
        path = tmp_path / "photos" / "ab"[row % 2] / f"{row}.jpg"
        Image.new("RGB", (400, 200), (200, 30, 30)).save(path)
    table = open_table(tmp_path / "photos", None, Validator())
    assert table.input_shape == (3, 64, 64)
    found = TableRows(table.schema, table.records, thumbnails=True).previews([1, 4])
    assert sorted(found) == [1, 4]
    stored = Image.open(io.BytesIO(base64.b64decode(found[4]["image"])))
    assert stored.size == (96, 48)
    assert np.abs(np.asarray(stored).mean(axis=(0, 1)) - (200, 30, 30)).max() < 4
    assert TableRows(table.schema, table.records).previews([1]) == {}
