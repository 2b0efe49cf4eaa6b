"""The journal: what was accepted is on disk, once, and torn or damaged lines are noticed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tamis.sources import (
    BacklogError,
    Journal,
    NotWrittenRecordsError,
    ReplacedError,
    Unreadable,
)
from tamis.sources.journal import DAMAGED
from tests.support.wait import END, wait_until


def filled(folder: Path, records: int = 20, **settings: Any) -> Journal:
    journal = Journal(folder, **{"segment_bytes": 300, **settings})
    for n in range(journal.end, records):
        journal.append([{"n": n}])
    return journal


def read(journal: Journal, offset: Any = None) -> list[Any]:
    return [record for batch in journal.read(offset) for record in batch.records]


def numbers(journal: Journal, offset: Any = None) -> list[int]:
    return [record["n"] for record in read(journal, offset)]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def test_positions_are_numbers_from_the_first_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.append([{"a": 1}, {"a": 2}]) == [0, 1]
    assert journal.append([]) == []
    assert Journal(tmp_path).append([{"a": "\u2028 \ud800\n"}]) == [2]
    assert read(Journal(tmp_path)) == [{"a": 1}, {"a": 2}, {"a": "\u2028 \ud800\n"}]


def test_lines_are_json_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "journal"
    filled(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(segments(folder)) > 2
    for path in segments(folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for line in path.read_text().splitlines():
            assert json.loads(line)["record"] == {"n": json.loads(line)["n"]}


def test_what_is_accepted_is_synced_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    fsync = os.fsync

    def sync(handle: int) -> None:
        fsync(handle)
        synced.append(b"".join(path.read_bytes() for path in segments(tmp_path)))

    monkeypatch.setattr(os, "fsync", sync)
    journal = Journal(tmp_path)
    journal.append([{"n": 0}])
    journal.append([{"n": 1}, {"n": 2}])
    assert synced[0] == b""  # the name of the segment, in its folder
    assert [content.count(b"\n") for content in synced[1:]] == [1, 3]


def test_those_who_wait_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, rows=1000)
    journal.append([{"n": "first"}])
    fsync, calls, may_go = os.fsync, [], threading.Event()

    def slow(handle: int) -> None:
        calls.append(handle)
        may_go.wait(END)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    found: dict[int, list[int]] = {}

    def add(who: int) -> None:
        found[who] = journal.append([{"n": who}])

    threads = [threading.Thread(target=add, args=(who,)) for who in range(30)]
    threads[0].start()
    wait_until(lambda: calls)
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(journal._pending) == 29)
    may_go.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 2  # one for the first, and one for all that came meanwhile
    assert sorted(place for (place,) in found.values()) == list(range(1, 31))
    by_place = {place: who for who, (place,) in found.items()}
    assert read(journal) == [{"n": "first"}, *({"n": by_place[at]} for at in range(1, 31))]


def test_a_reader_wakes_when_something_is_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path, follow=True)
    seen: list[Any] = []

    def follow() -> None:
        for batch in journal.read():
            seen.extend(batch.records)

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(3):
        journal.append([{"n": n}])
        wait_until(lambda n=n: seen == [{"n": m} for m in range(n + 1)])
    journal.close()
    thread.join(END)
    assert not thread.is_alive()
    assert journal.append([{"n": 3}]) == [3]  # for who reads later
    assert numbers(Journal(tmp_path), {"journal": 3}) == [3]


def test_a_record_waits_for_a_full_batch(tmp_path: Path) -> None:
    """But not longer than it may, nor beyond the end."""
    journal = Journal(tmp_path, rows=3, follow=True, linger=END)
    sizes: list[int] = []
    thread = threading.Thread(target=lambda: sizes.extend(map(len, journal.read())))
    thread.start()
    for n in range(7):
        journal.append([{"n": n}])
    wait_until(lambda: journal.behind() == 1)
    journal.close()
    thread.join(END)
    assert sizes == [3, 3]
    short = Journal(tmp_path, rows=3, follow=True, linger=0.001)
    assert len(next(short.read({"journal": 6}))) == 1


@pytest.mark.parametrize("left", range(1, 45, 4))
def test_a_torn_line_is_cut_off(tmp_path: Path, left: int) -> None:
    """However much of it was written, but for its end."""
    filled(tmp_path, 20, segment_bytes=10_000)
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    path.write_bytes(content[: last + left])
    journal = Journal(tmp_path)
    assert (journal.cut, journal.end) == (left, 19)
    assert path.read_bytes() == content[:last]
    journal.append([{"n": 19}])
    assert numbers(Journal(tmp_path)) == list(range(20))


@pytest.mark.parametrize("at", [0, 7, 19])
@pytest.mark.parametrize("segment_bytes", [300, 10_000])
def test_a_damaged_line_is_reported_and_costs_no_other(
    tmp_path: Path, at: int, segment_bytes: int
) -> None:
    filled(tmp_path, 20, segment_bytes=segment_bytes)
    for path in segments(tmp_path):
        content = path.read_bytes()
        path.write_bytes(content.replace(b'{"n":%d}' % at, b'{"n":%d}' % (at + 50)))
    found = read(Journal(tmp_path))
    assert found.pop(at) == Unreadable(None, DAMAGED, f"records {at} to {at}")
    assert [record["n"] for record in found] == [n for n in range(20) if n != at]


def test_lines_that_are_gone_are_reported(tmp_path: Path) -> None:
    filled(tmp_path, 20, segment_bytes=300)
    second = segments(tmp_path)[1]
    lines = second.read_bytes().splitlines(keepends=True)
    second.write_bytes(b"".join(lines[1:-1]))
    found = read(Journal(tmp_path))
    gaps = [record for record in found if isinstance(record, Unreadable)]
    assert [gap.detail for gap in gaps] == [
        f"records {n} to {n}" for n in (json.loads(lines[0])["n"], json.loads(lines[-1])["n"])
    ]
    assert len(found) == 20


def test_segments_are_removed_that_two_acknowledgements_are_past(tmp_path: Path) -> None:
    journal = filled(tmp_path, 40)
    before = len(segments(tmp_path))
    batches = list(journal.read())
    del batches
    journal.acknowledge({"journal": 25})
    assert len(segments(tmp_path)) == before
    journal.acknowledge({"journal": 40})
    assert 0 < journal.first <= 25 < len(numbers(Journal(tmp_path))) + journal.first
    assert numbers(Journal(tmp_path), {"journal": 25}) == list(range(25, 40))
    assert journal.size == sum(path.stat().st_size for path in segments(tmp_path))
    journal.acknowledge({"journal": 40})
    assert len(segments(tmp_path)) == 1
    assert journal.append([{"n": 40}]) == [40]
    assert numbers(journal, {"journal": 40}) == [40]


def test_what_was_removed_or_lost_is_not_passed_over(tmp_path: Path) -> None:
    journal = filled(tmp_path, 40)
    for _ in range(2):
        journal.acknowledge({"journal": 40})
    with pytest.raises(ReplacedError, match="what is missing was removed"):
        list(journal.read({"journal": 3}))
    with pytest.raises(ReplacedError, match="and 41 were read"):
        list(journal.read({"journal": 41}))


def test_too_many_unread_are_refused_until_some_are_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_unread=10, rows=4)
    journal.append([{}] * 8)
    with pytest.raises(BacklogError, match="8 records wait"):
        journal.append([{}] * 3)
    assert journal.append([{}] * 2) == [8, 9]
    next(reading := journal.read())
    assert journal.behind() == 6
    assert journal.append([{}]) == [10]
    reading.close()


def test_too_many_bytes_are_refused_until_some_are_acknowledged(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_bytes=1000, segment_bytes=200)
    while journal.size <= journal.most_bytes:
        journal.append([{"text": "x" * 50}])
    with pytest.raises(BacklogError):
        journal.append([{"text": "x" * 50}])
    (*_, last) = journal.read()
    for _ in range(2):
        journal.acknowledge(last.offset)
    journal.append([{"text": "x" * 50}])


def full(handle: int, content: bytes) -> int:
    return WRITE(handle, content[: len(content) // 2])


def failing(*_: Any) -> int:
    raise OSError(28, "No space left on device")


WRITE = os.write


@pytest.mark.parametrize(
    ("name", "fault"), [("write", full), ("write", failing), ("fsync", failing)]
)
def test_a_disk_that_fails_takes_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Any
) -> None:
    journal = filled(tmp_path, 5, segment_bytes=10_000)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fault)
        for _ in range(2):
            with pytest.raises(NotWrittenRecordsError, match="No space left on device"):
                journal.append([{"n": 5}, {"n": 6}])
        assert numbers(Journal(tmp_path)) == list(range(5))
    assert journal.append([{"n": 5}, {"n": 6}]) == [5, 6]
    assert numbers(journal) == numbers(Journal(tmp_path)) == list(range(7))


def test_what_was_refused_is_not_read_even_where_it_cannot_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = filled(tmp_path, 5, segment_bytes=10_000)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        patch.setattr(os, "ftruncate", failing)
        with pytest.raises(NotWrittenRecordsError):
            journal.append([{"n": "refused"}, {"n": "refused"}])
    journal.append([{"n": 5}])
    assert numbers(journal) == numbers(Journal(tmp_path)) == list(range(6))


def test_what_is_no_json_is_refused_alone(tmp_path: Path) -> None:
    journal = filled(tmp_path, 5)
    for record in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            journal.append([record])
    assert journal.append([{"n": 5}]) == [5]


PROGRAM = """
import sys
from tamis.sources import Journal
journal = Journal(sys.argv[1], segment_bytes=2_000)
n = journal.end
while True:
    journal.append([{"n": n}, {"n": n + 1}])
    n += 2
    print(n, flush=True)
"""


def test_killed_it_has_all_that_was_accepted(tmp_path: Path) -> None:
    for _ in range(3):
        command = [sys.executable, "-c", PROGRAM, tmp_path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            printed = [process.stdout.readline() for _ in range(200)]
            process.send_signal(signal.SIGKILL)
            printed += process.stdout.read().splitlines(keepends=True)
        accepted = max(int(line) for line in printed if line.endswith("\n"))
        found = numbers(Journal(tmp_path))
        assert found == list(range(len(found)))
        assert len(found) >= accepted
