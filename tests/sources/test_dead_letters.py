"""Dead letters: every one is a line at once, whatever the record; files stay bounded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tamis.sources import DeadLetters


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


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
    letters = DeadLetters(tmp_path / "deep" / "dead.jsonl")
    letters.write({"file": "a", "row": 3}, "no class: x", record)
    (line,) = letters.path.read_text().splitlines()  # without closing: a crash must not lose it
    found = json.loads(line)
    assert found["offset"] == {"file": "a", "row": 3}
    assert found["reason"] == "no class: x"
    assert 0 < len(found["record"]) <= 2_000
    letters.close()


def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead.jsonl")
    letters.write(0, "bad", "private")
    letters.close()
    assert letters.path.stat().st_mode & 0o077 == 0


def test_old_letters_are_turned_out(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead.jsonl", most_bytes=1_000, kept=2)
    for number in range(200):
        letters.write(number, "bad", "x" * 50)
    letters.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["dead.jsonl", "dead.jsonl.1", "dead.jsonl.2"]
    assert all(path.stat().st_size < 1_200 for path in tmp_path.iterdir())
    found = [
        json.loads(line)["offset"]
        for name in reversed(names)
        for line in (tmp_path / name).read_text().splitlines()
    ]
    assert found == list(range(200 - len(found), 200))


def test_letters_are_added_to_those_of_an_earlier_run(tmp_path: Path) -> None:
    for run in range(2):
        letters = DeadLetters(tmp_path / "dead.jsonl")
        letters.write(run, "bad", "x")
        letters.close()
    assert len(letters.path.read_text().splitlines()) == 2


def test_a_full_disk_is_warned_of_once_and_counted() -> None:
    letters = DeadLetters(Path("/dev/full"))
    with pytest.warns(UserWarning, match="Dead letters cannot be written"):
        letters.write(0, "bad", "x")
    letters.write(1, "bad", "x")
    assert letters.unwritten == 2
    letters.close()
