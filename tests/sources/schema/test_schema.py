"""The schema against a naive loop over rows, its layout, its JSON, and other tables through it."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tamis.models.tabular import TableLayout
from tamis.sources import BadInputError, Schema, infer_schema, read_schema, write_schema

ROWS = 300
WORDS = "late parcel refund broken phone never again thanks early reply".split()  # noqa: SIM905


def mixed(rows: int = ROWS, seed: int = 0) -> dict[str, list[Any]]:
    """Return a table of text with every kind of column, 8% of cells empty."""
    draw = np.random.default_rng(seed)
    start = date(2023, 1, 30)
    table: dict[str, list[Any]] = {
        "customer": [f"C-{row:05d}" for row in range(rows)],
        "row": [str(row) for row in range(rows)],
        "age": [str(age) for age in draw.integers(18, 90, rows)],
        "price": [f"{price:.2f}".replace(".", ",") for price in draw.normal(50, 9, rows)],
        "town": [("Bern", "Rome", "Oslo")[at] for at in draw.integers(0, 3, rows)],
        "member": [("no", "yes")[at] for at in draw.integers(0, 2, rows)],
        "joined": [f"{start + timedelta(int(d)):%d.%m.%Y}" for d in draw.integers(0, 900, rows)],
        "seen": [
            f"{datetime(2024, 5, 1) + timedelta(seconds=int(s))}"
            for s in draw.integers(0, 10**7, rows)
        ],
        "note": [" ".join(draw.choice(WORDS, draw.integers(3, 9))) for _ in range(rows)],
        "country": ["CH"] * rows,
        "kind": [("ant", "bee")[at] for at in draw.integers(0, 2, rows)],
    }
    for name in ("age", "price", "town", "member", "joined", "seen", "note"):
        for row in np.flatnonzero(draw.random(rows) < 0.08):
            table[name][row] = ""
    return table


def naive(schema: Schema, table: dict[str, list[Any]], row: int) -> list[float]:
    """Encode one row with the plainest code there is."""
    cells = {name: column[row] for name, column in table.items()}
    columns = {column.name: column for column in schema.columns}
    found: list[float] = []
    for name in ("age", "price"):
        text = cells[name].replace(",", ".")
        found += [float(text), 0] if text else [columns[name].median, 1]
    found += [("no", "yes").index(cells["member"]), 0] if cells["member"] else [
        columns["member"].share, 1,
    ]  # fmt: skip
    for name, form in (("joined", "%d.%m.%Y"), ("seen", "%Y-%m-%d %H:%M:%S")):
        if cells[name]:
            when = datetime.strptime(cells[name], form).replace(tzinfo=UTC)
            newest = datetime.fromtimestamp(columns[name].newest, UTC)
            parts = [(newest - when) / timedelta(days=1), when.month, when.day, when.weekday()]
            hour = [when.hour + when.minute / 60 + when.second / 3600] if name == "seen" else []
            found += [*parts, *hour, 0]
        else:
            found += [*columns[name].medians, 1]
    town = cells["town"]
    found.append(2 + columns["town"].values.index(town) if town else 0)
    words = cells["note"].split()
    grams = words + [f"{words[at]} {words[at + 1]}" for at in range(len(words) - 1)]
    ids: list[int] = []
    for gram in grams:
        number = zlib.crc32(gram.encode()) % (columns["note"].buckets - 1) + 1
        if number not in ids:
            ids.append(number)
    tokens = columns["note"].tokens
    return [*found, *(ids + [0] * tokens)[:tokens]]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return infer_schema(mixed(), label="kind", id="customer")


def test_kinds_are_found_out(schema: Schema) -> None:
    assert {column.name: column.kind for column in schema.columns} == {
        "row": "id", "age": "number", "price": "number", "town": "category",
        "member": "boolean", "joined": "datetime", "seen": "datetime", "note": "text",
        "country": "constant",
    }  # fmt: skip
    assert (schema.label, schema.classes, schema.id) == ("kind", ("ant", "bee"), "customer")


def test_a_row_is_numbers_then_codes_then_texts(schema: Schema) -> None:
    tokens = schema["note"].width
    assert schema.layout == TableLayout(2 + 2 + 2 + 5 + 6, (5,), ((tokens, 2**16),))
    assert schema.input_shape == (schema.layout.width,) == (len(schema.names),)
    assert schema.names[:7] == (
        "age", "age missing", "price", "price missing", "member", "member missing", "joined age",
    )  # fmt: skip


def test_encoding_is_the_naive_loops(schema: Schema) -> None:
    table = mixed()
    wanted = np.array([naive(schema, table, row) for row in range(ROWS)], np.float32)
    encoded = schema.encode(table)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, wanted, rtol=1e-6, atol=1e-6)


def test_json_and_back_is_exact(schema: Schema, tmp_path: Path) -> None:
    write_schema(tmp_path / "schema.json", schema)
    again = read_schema(tmp_path / "schema.json")
    assert again == schema
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert np.array_equal(again.encode(mixed(seed=1)), schema.encode(mixed(seed=1)))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "columns": [{"kind": "x"}]}']
)
def test_what_is_no_schema_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "schema.json").write_text(content)
    with pytest.raises(BadInputError):
        read_schema(tmp_path / "schema.json")


def test_decoding_gives_back_what_was_written(schema: Schema) -> None:
    table = mixed()
    for row in range(0, ROWS, 7):
        values = schema.decode(schema.encode(table)[row])
        cells = {name: column[row] for name, column in table.items()}
        assert values["age"] == (cells["age"] or None)
        assert values["town"] == (cells["town"] or None)
        assert values["member"] == (cells["member"] or None)
        if cells["price"]:
            assert float(values["price"] or 0) == pytest.approx(
                float(cells["price"].replace(",", "."))
            )
        if cells["joined"]:
            assert values["joined"] == f"{datetime.strptime(cells['joined'], '%d.%m.%Y'):%Y-%m-%d}"
        else:
            assert values["joined"] is None
        assert (values["note"] is None) == (cells["note"] == "")


def test_another_order_of_columns_changes_nothing(schema: Schema) -> None:
    table = mixed(seed=2)
    turned = dict(reversed(table.items())) | {"more": ["?"] * ROWS}
    assert np.array_equal(schema.encode(turned), schema.encode(table))


def test_records_and_frames_are_encoded_the_same(schema: Schema) -> None:
    table = mixed(seed=3)
    wanted = schema.encode(table)
    records = [{name: column[row] for name, column in table.items()} for row in range(ROWS)]
    assert np.array_equal(schema.encode(records), wanted)
    assert np.array_equal(schema.encode(pd.DataFrame(table)), wanted)
    assert np.array_equal(schema.encode(pa.table(table)), wanted)


def test_polars_frames_are_encoded_the_same(schema: Schema) -> None:
    polars = pytest.importorskip("polars")
    assert np.array_equal(schema.encode(polars.DataFrame(mixed())), schema.encode(mixed()))


def test_frames_with_types_have_the_kinds_of_their_columns() -> None:
    rows = 60
    frame = pd.DataFrame(
        {
            "size": pd.array([None if row % 9 == 0 else row * row for row in range(rows)], "Int64"),
            "share": np.linspace(0, 1, rows),
            "flag": [bool(row % 3) for row in range(rows)],
            "maybe": pd.array(
                [None if row == 3 else row % 2 == 0 for row in range(rows)], "boolean"
            ),
            "when": pd.date_range("2024-01-01", periods=rows, freq="7h", tz="Europe/Rome"),
            "shop": pd.Categorical([f"{row % 4}" for row in range(rows)]),
            "y": [row % 2 for row in range(rows)],
        }
    )
    frame.loc[5, "when"] = pd.NaT
    schema = infer_schema(frame, label="y")
    assert [column.kind for column in schema.columns] == [
        "number", "number", "boolean", "boolean", "datetime", "category",
    ]  # fmt: skip
    encoded = schema.encode(frame)
    assert np.isfinite(encoded).all()
    flags = [name for name in schema.names if name.endswith("missing")]
    assert flags == ["size missing", "maybe missing", "when missing"]


def test_a_missing_column_is_one_sentence(schema: Schema) -> None:
    table = mixed()
    table["Age"] = table.pop("age")
    with pytest.raises(BadInputError, match=r"has no column 'age'; is it 'Age' now\?$"):
        schema.encode(table)
    del table["Age"], table["town"], table["row"], table["country"]
    with pytest.raises(BadInputError, match=r"has no column 'age' and 1 more\.$"):
        schema.encode(table)


def test_values_never_seen_before_have_a_code_of_their_own(schema: Schema) -> None:
    table = mixed(2)
    table["town"] = ["Lima", ""]
    at = schema.places["town"]
    assert schema.encode(table)[:, at].tolist() == [[1], [0]]
    assert schema.decode(schema.encode(table)[0])["town"] == "(other)"


def test_what_cannot_be_read_is_counted(schema: Schema) -> None:
    table = mixed(4)
    table["age"] = ["41", "old", "", "?"]
    table["joined"] = ["2023-01-01", "01.02.2023", "", "n/a"]
    table["member"] = ["yes", "perhaps", "none", "No"]
    encoded, missing, unreadable = schema.read(table)
    assert missing["age"].tolist() == [False, True, True, True]
    assert {name: places.tolist().index(True) for name, places in unreadable.items()} == {
        "age": 1, "joined": 0, "member": 1,
    }  # fmt: skip
    assert all(places.sum() == 1 for places in unreadable.values())
    assert np.isfinite(encoded).all()
    assert encoded[:, schema.places["age"]][:, 1].tolist() == [0, 1, 1, 1]


def test_kinds_can_be_chosen() -> None:
    table = {"zip": [8001, 8002, 8003, 8001], "at": [0, 86_400, 172_800, 0], "y": list("abab")}
    schema = infer_schema(table, label="y", kinds={"zip": "category", "at": "datetime"})
    assert schema.encode(table)[:, schema.places["zip"]][:, 0].tolist() == [2, 3, 4, 2]
    assert schema.decode(schema.encode(table)[1]) == {"zip": "8002", "at": "1970-01-02"}
    with pytest.raises(BadInputError, match="no column 'zap' to be 'text'"):
        infer_schema(table, label="y", kinds={"zap": "text"})
    with pytest.raises(BadInputError, match="cannot be 'colour'; kinds are number, category"):
        infer_schema(table, label="y", kinds={"zip": "colour"})


def test_numbers_alone_are_as_they_came() -> None:
    numbers = np.random.default_rng(0).normal(0, 1e3, (50, 4)).astype(np.float32)
    numbers[:, 3] = 7  # a constant stays: the shape of rows is that of the file
    table = {f"c{at}": [repr(float(n)) for n in numbers[:, at]] for at in range(4)}
    schema = infer_schema(table | {"y": ["a", "b"] * 25}, label="y")
    assert np.array_equal(schema.encode(table), numbers)
    assert schema.layout == TableLayout(4)


def test_names_of_columns_may_be_numbers() -> None:
    records = [{0: 1.0, "y": "a"}, {0: 2.0, "y": "b"}]
    schema = infer_schema(records, label="y")
    assert schema.encode(records).tolist() == [[1], [2]]


def test_an_array_of_another_shape_rejects_its_row_alone() -> None:
    cells = [[1.0, 2.0], [3.0], [4.0, float("nan")], "text", None, [5.0, 6.0]]
    schema = infer_schema({"x": cells}, label="y", classes=["a", "b"])
    found = schema.read({"x": cells})
    assert schema.input_shape == (2,)
    assert found.unreadable["x"].tolist() == [False, True, False, True, True, False]
    assert found.rows[[0, 5]].tolist() == [[1, 2], [5, 6]]
    assert np.isnan(found.rows[[1, 2, 3, 4]]).any(axis=1).all()  # a list has no estimate


def test_a_gap_in_a_matrix_has_an_estimate_and_a_flag() -> None:
    cells = np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 7.0]])
    schema = infer_schema({"x": cells}, label="y", classes=["a", "b"])
    assert schema.encode({"x": cells})[1].tolist() == [3, 6, 1]
