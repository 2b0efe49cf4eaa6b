"""Text tables as programs of the world write them: encodings, delimiters, decimal commas."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.sources import BadInputError, Validator, open_table
from tamis.sources.schema import Number

TEXT = "größe;stadt;label\n1,5;Zürich;été\n-2,25;Köln;hiver\n1.000,75;Zürich;été\n"


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "read as utf-16"),
        ("utf-16-le", "read as utf-16-le"),
        ("utf-16-be", "read as utf-16-be"),
        ("utf-32", "read as utf-32"),
        ("cp1252", "read as cp1252"),
    ],
)
def test_encodings_are_found_out(tmp_path: Path, encoding: str, note: str | None) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(TEXT.encode(encoding))
    table = open_table(path, "label", Validator())
    assert [column.name for column in table.schema.columns] == ["größe", "stadt"]
    assert table.classes == ("hiver", "été")
    (samples,) = table
    assert samples.inputs.tolist() == [[1.5, 3], [-2.25, 2], [1000.75, 3]]
    assert table.reader.notes == [*([note] if note else []), "cells are separated by ';'"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_delimiters_are_found_out(tmp_path: Path, delimiter: str, ending: str) -> None:
    path = tmp_path / f"table{ending}"
    lines = ["a,note,label", '1,"one, two; three",x', '2,"four | five\tsix",y']
    cells = [line.split(",", 1) for line in lines]
    text = "\n".join(delimiter.join([first, *rest.rsplit(",", 1)]) for first, rest in cells)
    path.write_text(text)
    table = open_table(path, "label", Validator())
    assert [column.name for column in table.schema.columns] == ["a", "note"]
    assert table.records([1])[1] == {"a": "2", "note": "four | five\tsix", "label": "y"}


def test_damage_in_utf_8_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = "".join(f"{row},Zürich,{'xy'[row % 2]}\n" for row in range(40))
    path.write_bytes(f"a,b,label\n{rows}".encode().replace("ü".encode(), b"\xff", 1))
    table = open_table(path, "label", Validator())
    assert table.reader.notes == ["some bytes are not UTF-8, and became �"]
    assert table.records([0, 1])[0]["b"] == "Z�rich"
    assert table.records([0, 1])[1]["b"] == "Zürich"


def test_columns_without_a_name_and_twice_the_same_get_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(",a,a,label\n7,1,2,x\n9,3,4,y\n")
    table = open_table(path, "label", Validator())
    assert [column.name for column in table.schema.columns] == ["column 0", "a", "a (2)"]


@pytest.mark.parametrize(
    ("cells", "numbers", "notation"),
    [
        (["1.5", "2", "-3e2"], [1.5, 2, -300], (".", "", "")),
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25], (",", "", "")),
        (["1.234,5", "2,5", "1.000.000"], [1234.5, 2.5, 1e6], (",", ".", "")),
        (["1,234.5", "2", "1,000,000"], [1234.5, 2, 1e6], (".", ",", "")),
        (["1 234,5", "2,25", "7"], [1234.5, 2.25, 7], (",", " ", "")),
        (["12%", "7.5%", "n/a"], [12, 7.5, 9.75], (".", "", "%")),
        (["$1,200", "$3.50", "$7"], [1200, 3.5, 7], (".", ",", "$")),
    ],
)
def test_ways_to_write_numbers(
    cells: list[str], numbers: list[float], notation: tuple[str, str, str]
) -> None:
    column = Number.infer("price", cells)
    assert (column.decimal, column.grouping, column.unit) == notation
    assert column.encode(cells)[:, 0].tolist() == pytest.approx(numbers)


@pytest.mark.parametrize("rows", [5, 50_000, 500_000])
def test_an_open_quote_is_one_sentence(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('a,label\n1,"x\n' + "2,y\n" * rows)
    with pytest.raises(BadInputError, match=r"table\.csv is not a readable CSV file"):
        open_table(path, "label", Validator())


def test_the_last_row_may_end_in_a_quote_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('a,label\n1,x\n2,"y\nz"')
    table = open_table(path, "label", Validator())
    assert (table.rows, table.classes) == (2, ("x", "y\nz"))


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,label\n" + f"{'word ' * 50_000},x\nshort text,y\n" * 5)
    assert open_table(path, "label", Validator()).rows == 10
