"""Rejects: counted by reason, one line each at once whatever the record; files stay bounded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tamis.sources.rejects import Rejects, abbreviate


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "record",
    [
        {"a": 1},
        b"\xff\x00" * 100_000,
        "\ud800 lone, \u2028 and \n",
        Rude(),
        {"in": Rude()},
        deep(5_000),
        {str(n): "x" * 1_000 for n in range(10_000)},
        torch.zeros(1_000, 1_000),
        10**5_000,
        None,
    ],
    ids=lambda record: type(record).__name__,
)
def test_any_record_is_one_short_line(tmp_path: Path, record: Any) -> None:
    path = tmp_path / "deep" / "rejects.jsonl"
    rejects = Rejects(path)
    rejects.add({"file": "a", "row": 3}, "no class", "x", abbreviate(record))
    (line,) = lines_of(path)
    assert line["position"] == {"file": "a", "row": 3}
    assert (line["reason"], line["detail"]) == ("no class", "x")
    assert 0 < len(line["record"]) <= 2_000


def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    rejects = Rejects(tmp_path / "rejects.jsonl")
    rejects.add(0, "bad", record="private")
    assert (tmp_path / "rejects.jsonl").stat().st_mode & 0o077 == 0


def test_three_files_of_10_megabytes_are_the_most() -> None:
    rejects = Rejects(Path("rejects.jsonl"))
    assert (rejects.max_bytes, rejects.backups) == (10_000_000, 2)


@pytest.mark.parametrize("backups", [0, 2])
def test_files_stay_bounded_and_keep_the_newest(tmp_path: Path, backups: int) -> None:
    rejects = Rejects(tmp_path / "rejects.jsonl", max_bytes=1_000, backups=backups)
    for number in range(200):
        rejects.add(number, "bad", record="x" * 50)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["rejects.jsonl", "rejects.jsonl.1", "rejects.jsonl.2"][: backups + 1]
    assert all(path.stat().st_size < 1_200 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    found = [line["position"] for name in reversed(names) for line in lines_of(tmp_path / name)]
    assert found == list(range(200 - len(found), 200))
    assert rejects.total == 200
    rejects.clear()
    assert not rejects.total
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_warned_of_once_and_counted() -> None:
    rejects = Rejects(Path("/dev/full"))
    with pytest.warns(UserWarning, match="Rejected rows cannot be written"):
        rejects.add(0, "bad")
    rejects.add(1, "bad")
    assert (rejects.unwritten, rejects.total) == (2, 2)


def test_the_summary_is_one_sentence_most_frequent_reason_first() -> None:
    rejects = Rejects()
    assert rejects.summary() == "No row rejected."
    for reason in ["not finite", *["label missing"] * 10, "not finite"]:
        rejects.add(0, reason)
    assert rejects.summary() == "12 rows rejected: 10 x label missing; 2 x not finite."


def test_lines_since_the_checkpoint_are_cut_when_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    rejects = Rejects(path)
    rejects.add(0, "bad")
    state = json.loads(json.dumps(rejects.state_dict()))
    rejects.add(1, "worse")
    resumed = Rejects(path)
    resumed.load_state_dict(state)
    assert resumed.counts == {"bad": 1}
    resumed.add(1, "worse")
    assert [line["position"] for line in lines_of(path)] == [0, 1]
    assert resumed.state_dict() == rejects.state_dict()
