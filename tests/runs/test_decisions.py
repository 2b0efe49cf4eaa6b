"""Decisions: nothing is lost, whoever decides at once; undo takes back one step."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.runs import Decision, Decisions, add_line
from tamis.runs.decisions import ACTIONS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "decisions.jsonl"


def test_the_newest_is_in_force_and_undo_goes_back_one_step(path: Path) -> None:
    decisions = Decisions(path)
    first = decisions.decide(Decision("a", "relabel", "cat", "dog", author="ann"))
    assert first.previous is None
    assert first.time.endswith("+00:00")
    second = decisions.decide(Decision("a", "keep", given="dog"))
    assert second.previous == ("relabel", "cat")
    assert decisions.of("a") == second
    undone = decisions.decide(Decision("a", "undo"))
    assert undone.previous == ("keep", None)
    assert decisions.of("a") == first
    decisions.decide(Decision("a", "undo"))
    assert decisions.of("a") is None
    decisions.decide(Decision("a", "undo"))
    assert decisions.of("a") is None
    assert len(decisions.lines) == 5
    assert Decisions(path).lines == decisions.lines


def test_a_decision_is_synced_before_it_is_returned(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def sync(handle: int) -> None:
        synced.append(path.read_bytes())
        fsync(handle)

    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", sync)
    Decisions(path).decide(Decision("a", "keep"))
    assert synced == [path.read_bytes()]


def test_every_line_holds_who_when_and_what_was_before(path: Path) -> None:
    Decisions(path).decide(Decision("a", "relabel", "cat", "dog", 7, "ann"))
    line = json.loads(path.read_text())
    assert line.keys() == {
        "id", "decision", "label", "given", "row", "author", "time", "previous", "suggested",
    }  # fmt: skip
    assert (line["author"], line["row"], line["given"]) == ("ann", 7, "dog")


def test_another_reader_sees_it(path: Path) -> None:
    mine, yours = Decisions(path), Decisions(path)
    mine.decide(Decision("a", "drop"))
    assert yours.of("a") is None
    assert yours.refresh() == {"a"}
    assert yours.of("a").decision == "drop"
    assert yours.refresh() == set()


def decide_many(path: Path, who: int) -> None:
    decisions = Decisions(path)
    for number in range(40):
        decisions.decide(Decision(f"{number % 10}", "relabel", f"{who}-{number}"))


def test_processes_that_decide_at_once_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    workers = [context.Process(target=decide_many, args=(path, who)) for who in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    lines = Decisions(path).lines
    assert {line.label for line in lines} == {f"{w}-{n}" for w in range(3) for n in range(40)}
    before: dict[str, str] = {}
    for line in lines:  # each holds what was in force before it
        assert line.previous == (("relabel", before[line.id]) if line.id in before else None)
        before[line.id] = line.label


@pytest.mark.parametrize(
    "line",
    [
        {"id": "a", "decision": "explode"},
        {"decision": "keep"},
        {"id": ["a"], "decision": "keep"},
        {"id": "a", "decision": "relabel"},
        {"id": "a"},
    ],
)
def test_lines_that_are_no_decision_are_passed_over(path: Path, line: dict) -> None:
    add_line(path, line)
    add_line(path, {"id": 5, "decision": "keep", "previous": ["<b>"], "label": "no"})
    decisions = Decisions(path)
    assert list(decisions.in_force()) == ["5"]
    assert decisions.of("5").label is None


def test_names_of_authors_are_short_and_printable(path: Path) -> None:
    found = Decisions(path).decide(Decision("a", "keep", author=" an\nn\x00" + "x" * 500))
    assert found.author == "ann" + "x" * 97


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(ACTIONS)), max_size=20))
def test_what_is_in_force_is_what_a_stack_holds(tmp_path_factory, words: list) -> None:
    decisions = Decisions(tmp_path_factory.mktemp("stack") / "decisions.jsonl")
    stacks: dict[str, list[str]] = {"a": [], "b": []}
    for name, word in words:
        decisions.decide(Decision(name, word, "x"))
        stacks[name] = stacks[name][:-1] if word == "undo" else [*stacks[name], word]
    for name, stack in stacks.items():
        found = decisions.of(name)
        assert (found.decision if found else None) == (stack[-1] if stack else None)
