"""Records in a CSV file: read back, cut short, of an older kind, and never lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tamis.lab import board, tracker
from tamis.lab.rows import append, as_row, from_row, header, key, read
from tamis.sources import BadInputError

RESULTS = Path(__file__).parents[2] / "results"


@dataclass(frozen=True)
class Cell:
    name: str
    seed: int


@dataclass(frozen=True)
class Result(Cell):
    share: float
    guess: float = math.nan
    machine: str = ""


ONE = Result("a, b", 2, 0.25, 0.5, "here")


def test_a_record_is_read_back_as_it_was_written() -> None:
    assert as_row(ONE) == ["a, b", "2", "0.2500", "0.5000", "here"]
    assert from_row(Result, as_row(ONE)) == ONE
    assert key(ONE, Cell) == key(Cell("a, b", 2), Cell) == ("a, b", "2")
    with pytest.raises(ValueError, match="argument 2"):
        from_row(Result, as_row(ONE)[:-1])


def test_lines_are_those_of_csv_under_one_header(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    append(path, [ONE])
    append(path, [replace(ONE, seed=3), replace(ONE, seed=4)])
    lines = path.read_bytes().split(b"\r\n")
    assert lines[:2] == [b"name,seed,share,guess,machine", b'"a, b",2,0.2500,0.5000,here']
    assert read(path, Result) == [replace(ONE, seed=seed) for seed in (2, 3, 4)]


def test_a_line_cut_short_is_dropped_for_good(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    append(path, [ONE, replace(ONE, seed=3)])
    path.write_bytes(path.read_bytes()[:-4])
    assert read(path, Result) == [ONE]
    append(path, [replace(ONE, seed=5)])
    assert [record.seed for record in read(path, Result)] == [2, 5]


def test_an_older_file_is_read_and_learns_its_new_column(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    old = b"name,seed,share,machine\r\na,1,0.5000,here\r\n"
    path.write_bytes(old)
    (only,) = read(path, Result)
    assert (only.share, math.isnan(only.guess), only.machine) == (0.5, True, "here")
    assert path.read_bytes() == old
    append(path, [ONE])
    assert path.read_bytes().split(b"\r\n")[:2] == [
        b"name,seed,share,guess,machine",
        b"a,1,0.5000,nan,here",
    ]
    assert read(path, Result)[1] == ONE


@pytest.mark.parametrize("head", ["a,b", "seed,name,share,guess,machine", "name,share,machine"])
def test_other_columns_are_refused(head: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(f"{head}\n")
    with pytest.raises(BadInputError, match="other columns"):
        read(path, Result)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("board/results.csv", board.Result),
        ("plausible/results.csv", board.Result),
        ("tracker/results.csv", tracker.Result),
    ],
)
def test_the_files_of_the_project_are_complete(name: str, kind: type[Result]) -> None:
    path = RESULTS / name
    lines = path.read_bytes().splitlines()
    assert len(read(path, kind)) == len(lines) - 1
    assert header(kind)[0] == lines[0].decode().split(",")[0]
