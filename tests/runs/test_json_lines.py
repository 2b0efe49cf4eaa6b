"""Lines: complete ones are read, half ones wait, a file begun again is read again."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.runs import Tail, add_line, read_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "lines.jsonl"


def test_what_is_added_is_read(path: Path) -> None:
    for number in range(3):
        add_line(path, {"number": number})
    assert read_lines(path) == [{"number": number} for number in range(3)]


def test_no_file_is_no_line(path: Path) -> None:
    tail = Tail(path)
    assert tail.read() == []
    add_line(path, {"a": 1})
    assert tail.read() == [{"a": 1}]
    assert not tail.reset


def test_half_a_line_waits_for_its_end(path: Path) -> None:
    add_line(path, {"a": 1})
    tail = Tail(path)
    assert tail.read() == [{"a": 1}]
    with path.open("a") as file:
        file.write('{"b"')
    assert tail.read() == []
    with path.open("a") as file:
        file.write(": 2}\n")
    assert tail.read() == [{"b": 2}]


def test_half_a_line_left_by_a_crash_affects_no_other(path: Path) -> None:
    add_line(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"b": ')
    place = add_line(path, {"c": 3})
    tail = Tail(path)
    assert tail.read() == [{"a": 1}, {"c": 3}]
    assert tail.damaged == 1
    with path.open("rb") as file:
        file.seek(place)
        assert json.loads(file.readline()) == {"c": 3}


def test_places_lead_to_lines(path: Path) -> None:
    for text in ("ä", "b\n", "c" * 300, ""):
        add_line(path, {"text": text})
    for place, line in Tail(path).read_with_offsets():
        with path.open("rb") as file:
            file.seek(place)
            assert json.loads(file.readline()) == line


@pytest.mark.parametrize("longer", [True, False])
def test_a_file_begun_again_is_read_again(path: Path, longer: bool) -> None:
    for number in range(20):
        add_line(path, {"number": number})
    tail = Tail(path)
    assert len(tail.read()) == 20
    lines = [json.dumps({"other": number}) for number in range(40 if longer else 5)]
    path.write_text("".join(line + "\n" for line in lines))
    assert [line["other"] for line in tail.read()] == list(range(len(lines)))
    assert tail.reset
    assert tail.read() == []
    assert not tail.reset


def test_what_is_no_object_is_counted(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('[1]\nnonsense\n\n{"a": NaN}\n{"b": 1}\n' + "[" * 100_000 + "\n")
    tail = Tail(path)
    assert tail.read() == [{"a": None}, {"b": 1}]
    assert tail.damaged == 3


def test_nothing_new_costs_a_look(path: Path) -> None:
    add_line(path, {"a": 1})
    tail = Tail(path)
    assert tail.changed()
    tail.read()
    assert not tail.changed()
    add_line(path, {"a": 2})
    assert tail.changed()


def test_many_who_add_lose_nothing(path: Path) -> None:
    def add(who: int) -> None:
        for number in range(50):
            add_line(path, {"who": who, "number": number, "long": "x" * 500})

    threads = [threading.Thread(target=add, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {(line["who"], line["number"]) for line in read_lines(path)}
    assert found == {(who, number) for who in range(4) for number in range(50)}


@given(st.lists(st.binary(max_size=40), max_size=30), st.randoms())
def test_read_in_parts_is_read_at_once(tmp_path_factory, parts: list[bytes], rng) -> None:
    path = tmp_path_factory.mktemp("lines") / "any.jsonl"
    tail, found = Tail(path), []
    for part in parts:
        with path.open("ab") as file:
            file.write(part + (b'{"a": 1}\n' if rng.random() < 0.5 else b""))
        found += tail.read()
        assert not tail.reset
    assert found == read_lines(path)
