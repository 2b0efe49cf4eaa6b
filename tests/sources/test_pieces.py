"""Large files in pieces: several readers read every row once, from any offset on."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tamis.sources import Files
from tamis.sources.part import Part
from tests.sources.test_files import numbers, saved

ROWS = 400


def write(path: Path) -> Path:
    """Write rows of many lengths, also longer than a piece."""
    rows = [{"n": n, "text": (n % 7 * 9 + 300 * (n % 50 == 0)) * "x"} for n in range(ROWS)]
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))  # no newline at the end
    return path


@pytest.fixture(params=[".jsonl", ".parquet", ".csv"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tamis.sources.text.PIECE", 256)
    if request.param != ".csv":
        return write(tmp_path / f"rows{request.param}")
    lines = "".join(f'{n},"over\nlines"\n' for n in range(ROWS))
    (tmp_path / "rows.csv").write_text(f"n,text\n{lines}")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("readers", [2, 3])
def test_every_row_is_read_once_by_one_reader(readers: int, path: Path) -> None:
    found = [
        numbers(list(Files(path, rows=10, part=Part(number, readers)).read()))
        for number in range(readers)
    ]
    assert sorted(chain.from_iterable(found)) == list(range(ROWS))
    assert all(part == sorted(part) for part in found)
    shared = [part for part in found if part]
    assert len(shared) == (1 if path.suffix == ".csv" else readers)


def test_a_reader_continues_at_any_offset(path: Path) -> None:
    for number in range(2):
        batches = list(Files(path, rows=10, part=Part(number, 2)).read())
        for after, batch in enumerate(batches, 1):
            rest = Files(path, rows=10, part=Part(number, 2)).read(saved(batch.offset))
            assert numbers(list(rest)) == numbers(batches[after:])


def test_pieces_stay_with_their_reader_when_the_file_is_rotated(path: Path) -> None:
    if path.suffix == ".csv":
        pytest.skip("a file in one piece")
    batches = list(Files(path, rows=10, part=Part(0, 2)).read())
    path.rename(f"{path}.1")
    write(path)
    rest = list(Files(path.parent, rows=10, part=Part(0, 2)).read(saved(batches[1].offset)))
    own = [batch for batch in rest if batch.positions[0]["file"] == f"{path.name}.1"]
    assert numbers(own) == numbers(batches[2:])


def test_a_file_that_is_followed_has_one_reader(path: Path) -> None:
    found = [
        numbers(list(Files(path, follow=True, patience=0.0, part=Part(number, 2)).read()))
        for number in range(2)
    ]
    assert sorted(map(len, found)) in ([0, ROWS], [0, ROWS - 1])  # a last line without its end
