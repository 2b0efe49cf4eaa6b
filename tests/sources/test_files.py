"""Files as sources: every row once, from any offset on, whatever the writer is at."""

from __future__ import annotations

import csv
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tamis.sources import (
    Batch,
    Files,
    LostMessagesWarning,
    ReplacedError,
    SourceError,
    Unreadable,
)
from tests.support.wait import END, wait_until

ENDINGS = (".csv", ".jsonl", ".parquet")
every_ending = pytest.mark.parametrize("ending", ENDINGS)
ROWS = 53


def make_rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"n": n, "text": f'row "{n}",\nnext line'} for n in range(first, first + count)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def numbers(batches: list[Batch]) -> list[int]:
    return [int(record["n"]) for batch in batches for record in batch.records]


def saved(offset: Any) -> Any:
    """Go through JSON, as a checkpoint does."""
    return json.loads(json.dumps(offset))


# The same rows from every format


@every_ending
def test_rows_come_as_written(tmp_path: Path, ending: str) -> None:
    rows = make_rows(0, ROWS)
    batches = list(Files(write(tmp_path / f"rows{ending}", rows), rows=10).read())
    assert [len(batch) for batch in batches] == [10, 10, 10, 10, 10, 3]
    found = [dict(record) for batch in batches for record in batch.records]
    assert [{**row, "n": int(row["n"])} for row in found] == rows
    assert all(len(batch.positions) == len(batch) for batch in batches)
    assert batches[1].positions[0]["file"] == f"rows{ending}"


@every_ending
def test_reading_on_from_any_offset_is_as_if_never_stopped(tmp_path: Path, ending: str) -> None:
    for part in range(3):
        write(tmp_path / "rows" / f"{part}{ending}", make_rows(part * ROWS, ROWS))
    source = Files(tmp_path / "rows", rows=8)
    unbroken = list(source.read())
    assert numbers(unbroken) == list(range(3 * ROWS))
    for stop, batch in enumerate(unbroken):
        rest = list(source.read(saved(batch.offset)))
        assert rest == unbroken[stop + 1 :] or [
            (again.records, again.positions, again.offset) for again in rest
        ] == [(after.records, after.positions, after.offset) for after in unbroken[stop + 1 :]]


def test_kinds_may_be_mixed_and_notes_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", make_rows(0, 3))
    write(tmp_path / "b.jsonl", make_rows(3, 3))
    write(tmp_path / "c" / "deep.parquet", make_rows(6, 3))
    write(tmp_path / "d.ndjson", make_rows(9, 3))
    write(tmp_path / "_temporary" / "x.jsonl", make_rows(100, 3))
    write(tmp_path / ".hidden.jsonl", make_rows(100, 3))
    (tmp_path / "readme.txt").write_text("not for reading")
    assert numbers(list(Files(tmp_path).read())) == list(range(12))


def test_folders_named_after_columns_are_columns(tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "kind=ant" / "0.parquet", make_rows(0, 1))
    write(tmp_path / "year=2024" / "kind=a%20bee" / "0.parquet", make_rows(1, 1))
    records = [record for batch in Files(tmp_path).read() for record in batch.records]
    assert [(record["year"], record["kind"]) for record in records] == [
        ("2024", "a bee"),
        ("2024", "ant"),
    ]


@pytest.mark.parametrize("pattern", ["part-*.jsonl", "*/part-?.jsonl", "**/*.jsonl"])
def test_patterns(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path if pattern.startswith("part") else tmp_path / "in"
    for part in range(3):
        write(folder / f"part-{part}.jsonl", make_rows(part * 5, 5))
    write(tmp_path / "other.csv", make_rows(100, 5))
    batches = list(Files(f"{tmp_path}/{pattern}", rows=4).read())
    assert numbers(batches) == list(range(15))
    assert numbers(list(Files(f"{tmp_path}/{pattern}", rows=4).read(saved(batches[2].offset)))) == [
        *range(9, 15)
    ]


@every_ending
def test_another_file_system(tmp_path: Path, ending: str) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    view = write(tmp_path / f"rows{ending}", make_rows(0, ROWS))
    memory.pipe(f"/there/rows{ending}", view.read_bytes())
    source = Files("memory://there", rows=10)
    batches = list(source.read())
    assert numbers(batches) == list(range(ROWS))
    assert numbers(list(source.read(batches[3].offset))) == list(range(40, ROWS))
    memory.rm("/there", recursive=True)


# Files that grow


class Following:
    """Reads in a thread what a writer writes meanwhile."""

    def __init__(self, path: Path, offset: Any = None, rows: int = 5) -> None:
        self.source = Files(path, rows=rows, follow=True, poll=0.01)
        self.batches: list[Batch] = []
        self.error: SourceError | None = None
        self._thread = threading.Thread(target=self._run, args=(offset,))
        self._thread.start()

    def _run(self, offset: Any) -> None:
        try:
            for batch in self.source.read(offset):
                self.batches.append(batch)
        except SourceError as error:
            self.error = error

    def wait_for(self, count: int) -> list[int]:
        wait_until(lambda: len(numbers(self.batches)) >= count)
        sleep(0.05)  # for what should not come
        return numbers(self.batches)

    def stop(self) -> None:
        self.source.close()
        self._thread.join(END)
        assert not self._thread.is_alive()


@pytest.fixture
def follow() -> Iterator[Callable[..., Following]]:
    begun: list[Following] = []

    def begin(path: Path, offset: Any = None) -> Following:
        begun.append(Following(path, offset))
        return begun[-1]

    yield begin
    for following in begun:
        following.stop()


def test_appended_lines_are_read_and_half_a_line_is_waited_for(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(0, 3))
    reader = follow(path)
    assert reader.wait_for(3) == [0, 1, 2]
    with path.open("a") as file:
        file.write('{"n": 3}\n{"n": 4')
        file.flush()
        assert reader.wait_for(4) == [0, 1, 2, 3]
        file.write("2}\n")
        file.flush()
        assert reader.wait_for(5) == [0, 1, 2, 3, 42]
    assert not any(isinstance(r, Unreadable) for batch in reader.batches for r in batch.records)


def test_a_quoted_cell_is_waited_for_until_its_quote_closes(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n,te")
    reader = follow(path)
    sleep(0.05)
    with path.open("a") as file:
        file.write('xt\n0,x\n1,"two\n')
        file.flush()
        assert reader.wait_for(1) == [0]
        file.write('lines"\n')
        file.flush()
        assert reader.wait_for(2) == [0, 1]
    assert reader.batches[-1].records[-1] == {"n": "1", "text": "two\nlines"}


def test_new_files_are_read_whatever_their_name(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    write(tmp_path / "m.jsonl", make_rows(0, 2))
    reader = follow(tmp_path)
    assert reader.wait_for(2) == [0, 1]
    write(tmp_path / "z.csv", make_rows(2, 2))
    assert reader.wait_for(4) == [0, 1, 2, 3]
    write(tmp_path / "a.parquet", make_rows(4, 2))
    assert reader.wait_for(6) == [0, 1, 2, 3, 4, 5]
    offset = saved(reader.batches[-1].offset)
    reader.stop()
    write(tmp_path / "b.jsonl", make_rows(6, 2))
    assert follow(tmp_path, offset).wait_for(2) == [6, 7]


def test_a_half_written_parquet_file_is_waited_for(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    content = write(tmp_path / "elsewhere.parquet", make_rows(0, 40)).read_bytes()
    folder = tmp_path / "rows"
    folder.mkdir()
    write(folder / "z.jsonl", make_rows(40, 1))
    path = folder / "a.parquet"
    for part in (b"PAR1", content[: len(content) // 2], content[:-1]):
        path.write_bytes(part)
        reader = follow(folder)
        assert reader.wait_for(1) == [40]
        source = reader.source
        wait_until(lambda source=source: source.waiting == {"a.parquet"})
        reader.stop()
    reader = follow(folder)
    path.write_bytes(content)
    assert sorted(reader.wait_for(41)) == list(range(41))
    wait_until(lambda: not reader.source.waiting)


def test_a_folder_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    reader = follow(tmp_path / "later")
    sleep(0.05)
    write(tmp_path / "later" / "rows.jsonl", make_rows(0, 2))
    assert reader.wait_for(2) == [0, 1]


def test_a_file_that_grows_and_grows_lets_others_have_their_turn(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", make_rows(0, 10))
    write(tmp_path / "b.jsonl", make_rows(1000, 10))
    found = []
    source = Files(tmp_path, rows=5, follow=True, poll=0.01)
    for batch in source.read():
        found.append(batch)
        with path.open("a") as file:
            file.write('{"n": 7}\n' * 5)
        if len(found) == 5:
            break
    assert sorted(numbers(found))[-1] >= 1000


def test_a_removed_file_is_forgotten(tmp_path: Path, follow: Callable[..., Following]) -> None:
    first = write(tmp_path / "a.jsonl", make_rows(0, 2))
    write(tmp_path / "b.jsonl", make_rows(2, 2))
    reader = follow(tmp_path)
    assert reader.wait_for(4) == [0, 1, 2, 3]
    first.unlink()
    write(tmp_path / "c.jsonl", make_rows(4, 2))
    assert reader.wait_for(6) == [0, 1, 2, 3, 4, 5]
    assert set(reader.batches[-1].offset) == {"b.jsonl", "c.jsonl"}


def rotate_by_rename(path: Path) -> None:
    path.rename(f"{path}.1")


def rotate_by_copy(path: Path) -> None:
    Path(f"{path}.1").write_bytes(path.read_bytes())
    path.write_bytes(b"")


def rotate_and_compress(path: Path) -> None:
    Path(f"{path}.1.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("rotate", [rotate_by_rename, rotate_by_copy, rotate_and_compress])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_rotated_file_is_read_to_its_end_after_a_restart(
    tmp_path: Path, rotate: Callable[[Path], None], ending: str
) -> None:
    path = write(tmp_path / f"rows{ending}", make_rows(0, 30))
    first = next(Files(path, rows=10).read())
    rotate(path)
    write(path, make_rows(30, 30))  # of about the same size
    source = Files(path, rows=10, follow=True, poll=0.01, patience=0.1)
    found = list(source.read(saved(first.offset)))
    assert numbers([first, *found]) == list(range(60))
    again = Files(path, rows=10, follow=True, poll=0.01, patience=0.1)
    assert numbers(list(again.read(saved(found[3].offset)))) == list(range(50, 60))


def test_a_copy_may_have_the_inode_of_a_file_that_is_gone(tmp_path: Path) -> None:
    """File systems give the inode of a removed file to the next one."""
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    first = next(Files(path, rows=10).read())
    rotate_and_compress(path)
    inode = Path(f"{path}.1.gz").stat().st_ino
    write(path, make_rows(30, 5))
    offset = {"rows.jsonl.0": [40, 1, inode], **saved(first.offset)}
    source = Files(path, rows=10, follow=True, poll=0.01)
    found = [first]
    for batch in source.read(offset):
        found.append(batch)
        if len(numbers(found)) >= 35:
            break
    assert numbers(found) == list(range(35))


@pytest.mark.parametrize("more", [5, 300])
def test_a_file_truncated_while_it_is_read_is_read_on_from_its_copy(
    tmp_path: Path, more: int
) -> None:
    """Lines and the mark after them are not read in one step: a truncation may come between."""
    path = tmp_path / "rows.jsonl"
    rows = [{"n": n, "text": 200 * "x"} for n in range(200 + more)]
    write(path, rows[:200])
    left = 65

    def decode(line: bytes) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            rotate_by_copy(path)
            write(path, rows[200:])
        return json.loads(line)

    source = Files(path, rows=10, follow=True, poll=0.01, decode=decode)
    found: list[Batch] = []
    for batch in source.read():
        found.append(batch)
        if len(numbers(found)) >= len(rows):
            break
    assert numbers(found) == list(range(200 + more))


def shift(path: Path) -> None:
    """Rename what was rotated before, as logrotate does."""
    for number in (3, 2, 1):
        for ending in ("", ".gz"):
            if Path(f"{path}.{number}{ending}").exists():
                Path(f"{path}.{number}{ending}").rename(f"{path}.{number + 1}{ending}")


@pytest.mark.parametrize("rotate", [rotate_by_rename, rotate_by_copy, rotate_and_compress])
@pytest.mark.parametrize("stop", [0, 2, 3, 5, 7, 8])
def test_files_begun_and_rotated_while_nobody_read_are_read(
    tmp_path: Path, rotate: Callable[[Path], None], stop: int
) -> None:
    """Killed at any batch after it, too."""
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    write(tmp_path / "rows.jsonl.7", make_rows(900, 30))  # from before
    os.utime(tmp_path / "rows.jsonl.7", (0, 0))
    first = next(Files(path, rows=10).read())
    for start in (30, 60):
        shift(path)
        rotate(path)
        write(path, make_rows(start, 30))

    def source() -> Files:
        return Files(path, rows=10, follow=True, poll=0.01, patience=0.1)

    found = list(source().read(saved(first.offset)))
    assert numbers([first, *found]) == list(range(90))
    rest = list(source().read(saved(found[stop - 1].offset if stop else first.offset)))
    assert numbers([first, *found[:stop], *rest]) == list(range(90))
    shift(path)
    rotate(path)
    write(path, make_rows(90, 30))
    last = [*found, *rest][-1].offset
    assert numbers(list(source().read(saved(last)))) == list(range(90, 120))


@pytest.mark.parametrize("pattern", ["rows.jsonl", ""])
@pytest.mark.parametrize(
    "name",
    [
        "rows.jsonl.{}", "rows.jsonl.{}.gz", "rows.jsonl-2026010{}", "rows-2026010{}.jsonl",
        "rows.2026-01-0{}.jsonl", "rows-2026010{}.jsonl.gz",
    ],
)  # fmt: skip
def test_rotated_files_have_a_number_or_a_date(tmp_path: Path, name: str, pattern: str) -> None:
    """After the name or before its suffix, whether the folder is read or that file alone."""
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    first = next(Files(path, rows=10).read())
    for number in (1, 2):
        rotated = tmp_path / name.format(number)
        if name.endswith(".gz"):
            rotated.write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        else:
            path.rename(rotated)
        write(path, make_rows(30 * number, 30))
    write(tmp_path / "rows.jsonl.bak", make_rows(900, 30))
    rest = list(Files(tmp_path / pattern, rows=10).read(saved(first.offset)))
    assert sorted(numbers([first, *rest])) == list(range(90))


def test_a_file_removed_while_nobody_followed_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.jsonl", make_rows(0, 30))
    write(tmp_path / "b.jsonl", make_rows(30, 5))
    first = next(Files(tmp_path, rows=10).read())
    path.unlink()
    (rest,) = Files(tmp_path, rows=10).read(saved(first.offset))
    assert numbers([rest]) == list(range(30, 35))
    assert list(rest.offset) == ["b.jsonl"]
    (line,) = caplog.messages
    assert "a.jsonl was removed; it was read up to " in line


@pytest.mark.parametrize("replace", [rotate_by_rename, Path.unlink])
def test_a_file_replaced_by_one_of_the_same_size_is_read(
    tmp_path: Path, follow: Callable[..., Following], replace: Callable[[Path], None]
) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(10, 30))
    reader = follow(path)
    reader.wait_for(30)
    replace(path)
    write(path, make_rows(50, 30))
    assert reader.wait_for(60) == [*range(10, 40), *range(50, 80)]


def test_what_was_written_to_a_file_before_it_was_removed_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    source = Files(path, rows=10, follow=True, poll=0.01, patience=END)
    reading = source.read()
    found = [next(reading) for _ in range(3)]
    with path.open("a") as file:
        file.write('{"n": 30}\n{"n": 31}\n')
    path.unlink()
    write(path, make_rows(32, 5))
    found += [next(reading), next(reading)]
    assert numbers(found) == list(range(37))
    reading.close()  # type: ignore[attr-defined]


def test_a_file_copied_truncated_and_then_renamed_is_read_once(tmp_path: Path) -> None:
    """All between two looks at the folder, while the file is held open."""
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    source = Files(path, rows=10, follow=True, poll=0.01, patience=END)
    reading = source.read()
    found = [next(reading) for _ in range(2)]
    rotate_by_copy(path)
    write(path, make_rows(30, 10))
    shift(path)
    rotate_by_rename(path)
    shift(path)
    rotate_and_compress(Path(f"{path}.2"))  # to another name than it would have
    Path(f"{path}.2.1.gz").rename(f"{path}.2.gz")
    write(path, make_rows(40, 10))
    found += [next(reading) for _ in range(3)]
    assert numbers(found) == list(range(50))
    reading.close()  # type: ignore[attr-defined]
    rest = Files(path, rows=10, follow=True, poll=0.01, patience=0.1)
    assert list(rest.read(saved(found[-1].offset))) == []


def test_a_file_rewritten_in_place_to_the_same_size_is_reported(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(10, 30))
    reader = follow(path)
    reader.wait_for(30)
    write(path, make_rows(50, 30))
    wait_until(lambda: reader.error is not None)
    assert isinstance(reader.error, ReplacedError)
    assert "rows.jsonl cannot be read on: it " in str(reader.error)  # shrank, or was changed


def test_what_is_lost_of_a_file_can_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    first = next(Files(path, rows=10).read())
    write(path, make_rows(50, 30))
    with pytest.raises(ReplacedError, match="changed since it was read"):
        list(Files(path, follow=True).read(saved(first.offset)))
    source = Files(path, skip_lost=True)
    with pytest.warns(LostMessagesWarning, match=r"what followed \d+ in rows.jsonl"):
        assert numbers(list(source.read(saved(first.offset)))) == list(range(50, 80))


def test_patience_ends_following(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(0, 3))
    source = Files(path, follow=True, poll=0.01, patience=0.1)
    assert numbers(list(source.read())) == [0, 1, 2]


def test_a_writer_in_small_pieces_loses_nothing(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    path = tmp_path / "rows.jsonl"
    content = write(path, make_rows(0, 300)).read_bytes()
    path.write_bytes(b"")
    reader = follow(path)
    with path.open("ab", buffering=0) as file:
        for start in range(0, len(content), 97):
            file.write(content[start : start + 97])
    assert reader.wait_for(300) == list(range(300))


# The end of a file, and what is behind


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_last_line_without_newline_counts_unless_followed(
    tmp_path: Path, ending: str, newline: str
) -> None:
    lines = ["n", "0", "1"] if ending == ".csv" else ['{"n": 0}', '{"n": 1}']
    more = "2" if ending == ".csv" else '{"n": 2}'
    path = tmp_path / f"rows{ending}"
    path.write_bytes(newline.join(lines).encode())
    batches = list(Files(path).read())
    assert numbers(batches) == [0, 1]
    assert numbers(list(Files(path, follow=True, poll=0.01, patience=0.03).read())) == [0]

    offset = saved(batches[-1].offset)
    assert list(Files(path).read(offset)) == []
    path.write_bytes(newline.join([*lines, more, ""]).encode())
    assert numbers(list(Files(path).read(offset))) == [2]
    path.write_bytes(newline.join(lines).encode() + b"0" + newline.encode())
    with pytest.raises(SourceError, match=rf"rows{ending} .* has gone on since it was read"):
        list(Files(path).read(offset))


def test_rows_behind_are_estimated_from_bytes(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n' * 1000)
    source = Files(path, rows=100)
    assert [source.behind() for _ in source.read()] == [*range(900, -1, -100)]


# Records and files that cannot be read


def test_lines_that_are_no_json_stand_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 0}\n\n{"n": \n\xff\xfe\n' + b"[" * 10_000 + b'\n{"n": 1}\n')
    (batch,) = Files(path).read()
    assert [isinstance(record, Unreadable) for record in batch.records] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert batch.positions[1] == {"file": "rows.jsonl", "byte": 10}


def test_rows_that_do_not_fit_stand_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b'\xef\xbb\xbfn,text\n0,x\n1\n2,y,z\n3,\xff\n5,"a ""b"""\n\n6,5" wide\n"4\n7,z\n'
    )
    (batch,) = Files(path).read()
    good = [int(r["n"]) for r in batch.records if not isinstance(r, Unreadable)]
    bad = [r.reason for r in batch.records if isinstance(r, Unreadable)]
    assert good == [0, 5, 6, 7]
    assert bad == ["fields do not fit the header"] * 2 + ["not decoded"] * 2


@pytest.mark.parametrize("header", ['"n","text"', "n,text"])
def test_a_byte_order_mark_is_no_part_of_a_quoted_name(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f'{header}\n1,x\n2,"\ufeffy"\n', encoding="utf-8-sig")
    first, second = (batch.records[0] for batch in Files(path, rows=1).read())
    assert first == {"n": "1", "text": "x"}
    assert second == {"n": "2", "text": "\ufeffy"}


def test_a_line_without_end_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.sources.text.LONGEST", 100)
    for name, start in (("rows.jsonl", ""), ("rows.csv", "n\n")):
        path = tmp_path / name
        path.write_text(f"{start}{'7' * 1000}\n" + ('{"n": 1}\n' if not start else "1\n"))
        (batch,) = Files(path).read()
        assert isinstance(batch.records[0], Unreadable)
        assert len(batch.records[0].raw) == 100
        assert int(batch.records[1]["n"]) == 1


@every_ending
def test_a_file_that_was_changed_is_refused(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"rows{ending}", make_rows(0, 30))
    batches = list(Files(path, rows=10).read())
    write(path, make_rows(1000, 30))
    for batch in batches:
        with pytest.raises(ReplacedError, match=rf"rows{ending} .*changed since it was read"):
            list(Files(path, rows=10).read(saved(batch.offset)))


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_file_that_shrank_is_refused(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"rows{ending}", make_rows(0, 30))
    *_, last = Files(path).read()
    write(path, make_rows(0, 5))
    with pytest.raises(ReplacedError, match=rf"rows{ending} cannot be read on: .* it shrank"):
        list(Files(path).read(saved(last.offset)))


def test_a_file_truncated_while_followed_is_refused(
    tmp_path: Path, follow: Callable[..., Following]
) -> None:
    path = write(tmp_path / "rows.jsonl", make_rows(0, 30))
    reader = follow(path)
    reader.wait_for(30)
    path.write_text("{}\n")
    wait_until(lambda: reader.error is not None)
    assert isinstance(reader.error, ReplacedError)
    assert "it shrank" in str(reader.error)


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"PAR1" * 30])
def test_a_damaged_parquet_file_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = write(tmp_path / "rows.parquet", make_rows(0, 30))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SourceError, match=r"rows\.parquet"):
        list(Files(path).read())


@pytest.mark.parametrize("name", ["nothing.csv", "*.csv", "rows.xlsx"])
def test_what_is_missing_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.xlsx").write_text("")
    with pytest.raises(SourceError, match=r"finds no file that ends in one of \.csv"):
        list(Files(tmp_path / name).read())


@pytest.mark.parametrize("header", ["n,n\n", "\xff,n\n"])
def test_a_bad_header_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(header.encode("latin-1") + b"1,2\n")
    with pytest.raises(SourceError, match=r"rows\.csv cannot be read on: the header"):
        list(Files(path).read())
