"""Points and alarms: written while a run goes on, read back as far as they came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tamis import Alarm, Naive, Replay, Samples, Sliding, Tracker, Trainer
from tamis.noise.tracker import Estimate
from tamis.runs import AlarmRecord, EstimateHistory, EstimateLog, EstimatePoint, add_line
from tamis.runs.estimates import point_of
from tamis.streams import Steps, Symmetric


def run(
    folder: Path, blobs: Samples, model: nn.Module, tracker: Tracker, slots: int
) -> EstimateLog:
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    stream = Replay(
        blobs.inputs, right, Symmetric(3), Steps((0.9, 0.4)), slots=slots, rows_per_slot=20
    )
    rule = torch.optim.SGD(model.parameters(), 1e-6)
    trainer = Trainer(model, rule, Naive(), Sliding(500), k=8, tracker=tracker)
    tracking = EstimateLog(folder, tracker, every=10, confusion_every=50)
    for samples in stream:
        tracking.update(trainer.step(samples), samples)
    return tracking


def test_the_confusion_of_many_classes_is_not_written() -> None:
    tracker = Tracker(500)
    tracker.update(torch.eye(500)[:50], torch.arange(50))
    point = point_of(tracker, 0, with_confusion=True)
    assert point.confusion is None
    assert len(point.by_class or ()) == 500


def test_estimates_stand_beside_the_truth(tmp_path: Path, blobs, blob_model) -> None:
    run(tmp_path, blobs, blob_model, Tracker(3, half_life=400), 200)
    points = EstimateHistory(tmp_path).points
    assert [point.slot for point in points] == list(range(9, 200, 10))
    assert points[8].true == pytest.approx(0.9, abs=0.05)
    assert points[-1].true == pytest.approx(0.4, abs=0.1)
    assert points[8].value == pytest.approx(0.9, abs=0.05)
    assert points[-1].value == pytest.approx(0.4, abs=0.1)
    assert all(point.low <= point.value <= point.high for point in points)
    assert [point.slot for point in points if point.confusion] == [49, 99, 149, 199]
    assert all(len(point.by_class) == 3 for point in points)
    sums = torch.tensor(points[-1].confusion).double().sum(dim=1) if points[-1].confusion else 0
    assert torch.allclose(sums, torch.ones(3).double(), atol=1e-3)


def test_alarms_are_noted(tmp_path: Path, blobs, blob_model) -> None:
    run(tmp_path, blobs, blob_model, Alarm(3, half_life=400), 300)
    estimates = EstimateHistory(tmp_path)
    assert len(estimates.alarms) == 1
    assert estimates.alarms[0].kind == "noise"
    assert 150 <= estimates.alarms[0].slot < 200
    assert estimates.alarms[0].after < estimates.alarms[0].before


def test_a_run_without_truth(tmp_path: Path, blobs, blob_model) -> None:
    tracking = EstimateLog(tmp_path, Tracker(3), every=1)
    trainer = Trainer(
        blob_model, torch.optim.SGD(blob_model.parameters(), 0.1), Naive(), Sliding(100), k=8
    )
    tracking.update(trainer.step((blobs.inputs, blobs.labels)))
    (point,) = EstimateHistory(tmp_path).points
    assert (point.value, point.low, point.high, point.true) == (0.5, 0.0, 1.0, None)
    assert point.by_class == (None, None, None)


def test_a_resumed_run_takes_back_what_it_writes_again(tmp_path: Path) -> None:
    for slot in (9, 19, 29, 19):
        add_line(tmp_path / "tracked.jsonl", {"slot": slot, "value": 0.5, "low": 0.4, "high": 0.6})
    assert [point.slot for point in EstimateHistory(tmp_path).points] == [9, 19]


@pytest.mark.parametrize(
    "line",
    [
        {"slot": 1},
        {"slot": "a", "value": 1, "low": 1, "high": 1},
        {"slot": 1, "value": 7, "low": 1, "high": 1},
        {"slot": 1, "value": 1, "low": 1, "high": 1, "confusion": [["<b>"]]},
        {"slot": 1, "value": 1, "low": 1, "high": 1, "by_class": 3},
    ],
)
def test_odd_lines_are_passed_over(tmp_path: Path, line: dict) -> None:
    add_line(tmp_path / "tracked.jsonl", line)
    add_line(tmp_path / "alarms.jsonl", line)
    estimates = EstimateHistory(tmp_path)
    assert not estimates.points
    assert not estimates.alarms
    add_line(tmp_path / "tracked.jsonl", {"slot": 5, "value": 0.5, "low": 0.5, "high": 0.5})
    assert estimates.refresh()
    assert estimates.points == [EstimatePoint(5, 0.5, 0.5, 0.5)]


def test_every_slot_or_less_often(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every 1 slot or more"):
        EstimateLog(tmp_path, Tracker(3), every=0)


def test_alarms_about_classes_have_their_names(tmp_path: Path, blobs, blob_model) -> None:
    tracker = Alarm(3, half_life=400)
    log = run(tmp_path, blobs, blob_model, tracker, 20)
    tracker.grow(5)
    tracker.update(torch.full((2, 5), 0.2), torch.tensor([4, 3]))
    log.classes = ["a", "b", "c", "d"]
    rule = torch.optim.SGD(blob_model.parameters(), 1e-6)
    slot = Trainer(blob_model, rule, Naive(), Sliding(500), k=8).step(blobs)
    log.update(replace(slot, number=20))
    found = EstimateHistory(tmp_path).alarms
    assert [(alarm.slot, alarm.text) for alarm in found] == [
        (20, "New class: d."),
        (20, "New class: 4."),
    ]


def test_alarms_of_one_slot_are_all_read(tmp_path: Path) -> None:
    alarms = [
        AlarmRecord(3, "noise", 0.9, 0.5),
        AlarmRecord(7, "new class", subject="x"),
        AlarmRecord(7, "class gone", subject="y"),
    ]
    for alarm in alarms:
        add_line(tmp_path / "alarms.jsonl", alarm.to_json())
    history = EstimateHistory(tmp_path)
    assert history.alarms == alarms
    assert (
        alarms[0].text == "The share of wrong labels changed: clean ratio 0.90 before, 0.50 after."
    )
    again = AlarmRecord(5, "concept", 0.5, 0.4)  # as a resumed run writes an earlier slot
    add_line(tmp_path / "alarms.jsonl", again.to_json())
    add_line(tmp_path / "alarms.jsonl", {"slot": 8, "kind": "noise"})  # of no use
    history.refresh()
    assert history.alarms == [alarms[0], again]


class Opinion(Naive):
    """A selector whose opinion of the clean ratio is set by hand."""

    heart: tuple[float, float] | None = None

    def estimate(self) -> Estimate:
        return Estimate(0.61234, 0.5, 0.7)

    def learned_by_heart(self) -> tuple[float, float] | None:
        return self.heart


def test_labels_learned_by_heart_raise_one_alarm(tmp_path: Path, blobs, blob_model) -> None:
    """And another when they are again; a resumed run does not raise the same one twice."""
    selector = Opinion()
    rule = torch.optim.SGD(blob_model.parameters(), 0.1)
    trainer = Trainer(blob_model, rule, selector, Sliding(100), k=8)
    trainer.step((blobs.inputs, blobs.labels))
    log = EstimateLog(tmp_path, Tracker(3), every=1, selector=selector)
    for found in (None, (0.2, 0.97), (0.2, 0.96), None, (0.31, 0.99)):
        selector.heart = found
        log.update(trainer.step(None))
        state = log.state_dict()
        log = EstimateLog(tmp_path, Tracker(3), every=1, selector=selector)
        log.load_state_dict(state)
    history = EstimateHistory(tmp_path)
    assert [(alarm.slot, alarm.before, alarm.after) for alarm in history.alarms] == [
        (2, 0.2, 0.97),
        (5, 0.31, 0.99),
    ]
    assert history.alarms[0].text == (
        "Labels learned by heart: clean ratio 0.20 when rows were seen first, 0.97 now."
        " Trust the first."
    )
    assert all(point.held == (0.6123, 0.5, 0.7) for point in history.points)
