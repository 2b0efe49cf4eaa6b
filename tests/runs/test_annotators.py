"""Annotators over time, as a run's folder keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.noise import JointLabels
from tamis.runs.annotators import (
    MOST_WRITTEN,
    AnnotatorHistory,
    AnnotatorLog,
    AnnotatorPoint,
    AnnotatorState,
    point_of,
)
from tamis.runs.estimates import AlarmRecord, EstimateHistory
from tests.support.crowd import crowd

NAMES = [f"person {number}" for number in range(8)]
CLASSES = ("ant", "bee", "cow")


def played(folder: Path, *, slots: int = 75, log: AnnotatorLog | None = None) -> AnnotatorLog:
    """Return a log of a crowd, the last of whom goes bad, a slot of 40 labels each."""
    labels = crowd(1000, turns=True)
    log = log or AnnotatorLog(folder, JointLabels(3), lambda: NAMES, CLASSES, every=10)
    for slot in range(slots):
        part = slice(40 * slot, 40 * slot + 40)
        log.labels.update(*(column[part] for column in labels[1:]))
        log.update(slot)
    return log


def test_lines_and_alarms_are_written_and_read(tmp_path: Path) -> None:
    played(tmp_path)
    history, alarms = AnnotatorHistory(tmp_path), EstimateHistory(tmp_path).alarms
    assert [point.slot for point in history.points] == [9, 19, 29, 39, 49, 59, 69]
    assert [(alarm.kind, alarm.subject) for alarm in alarms] == [("annotator", "person 7")]
    assert alarms[0].text.startswith("Annotator person 7 has gone bad: agreement with others 0.")
    newest = history.newest
    assert newest is not None
    assert newest.total == 8
    by_name = {one.name: one for one in newest.annotators}
    assert {name for name, one in by_name.items() if one.since is not None} == {"person 7"}
    assert [one.accuracy for one in newest.annotators] == sorted(
        one.accuracy for one in newest.annotators
    )
    assert by_name["person 7"].labels > 100
    assert {one.true for one in newest.annotators} <= set(CLASSES)
    assert all(one.true != one.label for one in newest.annotators)
    slots, accuracy = history.accuracies("person 7")
    assert len(slots) == 7
    assert accuracy[-1] < accuracy[0] - 0.2


def test_what_was_written_after_a_checkpoint_is_removed(tmp_path: Path) -> None:
    log = played(tmp_path, slots=60)
    state = log.state_dict()
    before = [(tmp_path / name).read_bytes() for name in ("annotators.jsonl", "alarms.jsonl")]
    log.write(66)
    log.write(66)  # once is enough
    assert len(AnnotatorHistory(tmp_path).points) == 7
    resumed = AnnotatorLog(tmp_path, log.labels, lambda: NAMES, CLASSES, every=10)
    resumed.load_state_dict(state)
    after = [(tmp_path / name).read_bytes() for name in ("annotators.jsonl", "alarms.jsonl")]
    assert after == before
    resumed.write(59)
    assert len(AnnotatorHistory(tmp_path).points) == 6


def test_of_many_the_worst_and_the_most_active_are_written() -> None:
    labels = JointLabels(3)
    given = crowd(3000, 200, spammers=5)
    labels.update(*given[1:])
    point = point_of(labels, 4, (), CLASSES)
    assert point.total == 200
    assert MOST_WRITTEN // 2 <= len(point.annotators) <= MOST_WRITTEN
    assert {"0", "1", "2", "3", "4"} <= {one.name for one in point.annotators}


def test_nobody_is_written_before_there_is_a_label(tmp_path: Path) -> None:
    AnnotatorLog(tmp_path, JointLabels(3), lambda: NAMES, CLASSES, every=1).update(0)
    assert not (tmp_path / "annotators.jsonl").exists()


def test_a_point_is_the_same_after_json() -> None:
    state = AnnotatorState("Bob", 40, 0.75, "ant", "bee", 0.2, 12, 0.9, 0.5)
    point = AnnotatorPoint(7, 3, (state,))
    assert AnnotatorPoint.from_json(point.to_json()) == point


@pytest.mark.parametrize(
    "line",
    [{}, {"slot": 1, "total": 2}, {"slot": 1, "total": 2, "annotators": [3]},
     {"slot": 1, "total": 1, "annotators": [{"name": "x"}]}],
)  # fmt: skip
def test_what_is_no_point_is_skipped(line: dict) -> None:
    assert AnnotatorPoint.from_json(line) is None


def test_alarms_of_older_runs_have_no_subject() -> None:
    line = {"slot": 3, "kind": "noise", "before": 0.9, "after": 0.5}
    alarm = AlarmRecord.from_json(line)
    assert alarm is not None
    assert alarm.subject == ""
    assert "clean ratio" in alarm.text
