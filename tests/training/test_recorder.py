"""The folder of a run as a training loop keeps it: a table of one's own, resumed and reviewed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tamis import Alarm, Monitor, Plausible, Sliding, Trainer, Validator
from tamis.checkpoint import Checkpoints
from tamis.models import mlp, start
from tamis.review import NeighbourIndex, find_suspects
from tamis.review.live import MOST_A_SLOT
from tamis.runs import (
    AlarmRecord,
    Decision,
    Decisions,
    EstimateHistory,
    Run,
    RunMetadata,
    SuspectIndex,
    add_line,
    read_metadata,
)
from tamis.sources import Table, open_table
from tamis.streams import Constant, Replay, Symmetric, digits
from tamis.training.recorder import RunRecorder
from tamis.web.run_page import render_run

NAMES = [f"number {digit}" for digit in range(10)]
PIXELS = [f"p{pixel}" for pixel in range(64)]


@pytest.fixture(scope="module")
def truth() -> dict[str, tuple[str, str]]:
    """Labels of every scan: as given, and right."""
    data = digits()
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347)
    samples = next(iter(stream))
    right = Replay(
        torch.arange(1347), data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347
    )
    true = data.labels[next(iter(right)).inputs]
    return {
        f"scan-{row}": (NAMES[int(samples.labels[row])], NAMES[int(true[row])])
        for row in range(1347)
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, truth) -> Table:
    data = digits()
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347)
    samples = next(iter(stream))
    path = tmp_path_factory.mktemp("table") / "digits.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *PIXELS, "digit"])
        for row, pixels in enumerate(samples.inputs.flatten(1).tolist()):
            writer.writerow([f"scan-{row}", *pixels, truth[f"scan-{row}"][0]])
    return open_table(path, "digit", Validator(10, "skip"), id_column="name", rows_per_slot=10)


def make_trainer(table: Table) -> Trainer:
    model = start(mlp, table.input_shape, 10, 0)
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), 0.3), Plausible(), Sliding(2000), k=32,
        window="average", tracker=Alarm(10), validator=Validator(10, "skip"),
    )  # fmt: skip
    return trainer


def about_of(table: Table) -> RunMetadata:
    settings, columns = {"k": 32}, table.columns
    return RunMetadata(table.name, table.classes, table.input_shape, columns, len(table), settings)


def train(
    folder: Path, table: Table, corrections: Path | None = None, slots: int = 500
) -> tuple[Trainer, RunRecorder]:
    trainer = make_trainer(table)
    recorder = RunRecorder(folder, trainer, about_of(table), corrections)
    recorder.begin(resumed=False)
    go_on(folder, table, trainer, recorder, slots)
    finish(table, trainer, recorder)
    return trainer, recorder


def go_on(folder: Path, table: Table, trainer: Trainer, recorder: RunRecorder, slots: int) -> None:
    rows = table.named(10, skip=trainer.slots)
    with Monitor(folder / "log.jsonl") as monitor:
        for _ in range(trainer.slots, slots):
            samples, names = next(rows, (None, None))
            if samples is not None:
                samples, names = recorder.correct(samples, names)
            slot = trainer.step(samples)
            monitor.update(slot)
            recorder.update(slot, samples, names)


def finish(table: Table, trainer: Trainer, recorder: RunRecorder) -> None:
    held = trainer.buffer.pool()
    suspects = find_suspects(
        trainer.averaged, table.named(), table.classes, held, rows_per_slot=table.rows_per_slot
    )
    recorder.write_suspects(suspects, table.named())
    recorder.end("done")


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, table: Table
) -> tuple[Path, Trainer, RunRecorder]:
    folder = tmp_path_factory.mktemp("run")
    torch.set_num_threads(1)
    return folder, *train(folder, table)


def test_all_that_a_page_needs_is_there(run, truth) -> None:
    folder, *_ = run
    about = read_metadata(folder)
    assert about.name == "digits.csv"
    assert about.columns == tuple(PIXELS)
    assert about.ended == "done"
    assert about.versions["torch"]
    points = EstimateHistory(folder).points
    assert [point.slot for point in points] == list(range(49, 500, 50))
    assert points[2].value == pytest.approx(0.7, abs=0.07)
    assert sum(point.confusion is not None for point in points) == 1
    index = SuspectIndex(folder)
    wrong = {name for name, (given, right) in truth.items() if given != right}
    first = [suspect.id for suspect in list(index)[:300]]
    assert len(set(first) & wrong) > 290
    suspect = index.read(list(index)[:1])[0]
    assert suspect.slot == int(suspect.id.removeprefix("scan-")) // 10
    assert list(suspect.preview["columns"])[:2] == ["p0", "p1"]
    near = NeighbourIndex(folder).of(suspect.id)
    assert len(near) == 5
    assert all(other.id.startswith("scan-") for other in near)
    page = render_run(Run(folder))
    assert page.count('<figure class="chart') >= 5
    assert "<dt>p0</dt>" in page


def answer(folder: Path, truth, count: int) -> list[str]:
    """Review the first suspects by the truth."""
    decisions, names = Decisions(folder / "decisions.jsonl"), []
    for suspect in list(SuspectIndex(folder))[:count]:
        given, right = truth[suspect.id]
        word, label = ("keep", None) if given == right else ("relabel", right)
        decisions.decide(Decision(suspect.id, word, label, given, suspect.row, "truth"), sync=False)
        names.append(suspect.id)
    return names


def test_corrections_of_one_run_are_taken_into_another(run, table, truth, tmp_path) -> None:
    folder, trainer, _ = run
    names = answer(folder, truth, 200)
    before = trainer.buffer.pool().labels.clone()
    later, recorder = train(tmp_path, table, folder / "decisions.jsonl", slots=300)
    held = later.buffer.pool()
    right = torch.tensor([NAMES.index(truth[f"scan-{row}"][1]) for row in held.ids.tolist()])
    reviewed = torch.tensor([f"scan-{row}" in set(names) for row in held.ids.tolist()])
    assert reviewed.sum() == 200
    assert (before[reviewed] == right[reviewed]).float().mean() < 0.1
    assert held.labels[reviewed].equal(right[reviewed])
    assert (held.labels != before).sum() == (before[reviewed] != right[reviewed]).sum()
    assert not set(names) & {suspect.id for suspect in SuspectIndex(tmp_path)}
    assert recorder.decided() == set(names)
    assert recorder.undecided([]) == []
    point, other = EstimateHistory(tmp_path).points[2], EstimateHistory(folder).points[2]
    assert point.value > other.value  # the tracker sees that more labels are right


def test_decisions_are_taken_in_while_the_run_goes_on(table, truth, tmp_path) -> None:
    trainer = make_trainer(table)
    recorder = RunRecorder(tmp_path, trainer, about_of(table))
    recorder.live.every = 100
    recorder.begin(resumed=False)
    go_on(tmp_path, table, trainer, recorder, 200)
    first = [suspect.id for suspect in SuspectIndex(tmp_path)]
    assert len(first) > 100
    names = answer(tmp_path, truth, 50)
    drop = list(SuspectIndex(tmp_path))[60]
    Decisions(tmp_path / "decisions.jsonl").decide(Decision(drop.id, "drop", None, drop.given))
    go_on(tmp_path, table, trainer, recorder, 300)
    held = trainer.buffer.pool()
    assert drop.row not in held.ids
    for name in names:
        place = (held.ids == int(name.removeprefix("scan-"))).nonzero()[0]
        assert NAMES[int(held.labels[place])] == truth[name][1]
    second = [suspect.id for suspect in SuspectIndex(tmp_path)]
    assert not set(second) & {*names, drop.id}
    assert second != [name for name in first if name not in {*names, drop.id}]  # ranked again


def test_a_resumed_run_is_the_unbroken_one(table, truth, tmp_path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"

    def begin(folder: Path) -> tuple[Trainer, RunRecorder]:
        trainer = make_trainer(table)
        recorder = RunRecorder(folder, trainer, about_of(table))
        recorder.live.every = 40
        return trainer, recorder

    def same(*names: str) -> bool:
        return all((unbroken / name).read_bytes() == (broken / name).read_bytes() for name in names)

    trainer, recorder = begin(unbroken)
    recorder.begin(resumed=False)
    go_on(unbroken, table, trainer, recorder, 160)
    live = (unbroken / "suspects.jsonl").read_bytes()
    trainer, recorder = begin(broken)
    recorder.begin(resumed=False)
    go_on(broken, table, trainer, recorder, 90)
    checkpoints = Checkpoints(broken / "checkpoints")
    checkpoints.save(trainer, others={"recorder": recorder})
    go_on(broken, table, trainer, recorder, 130)  # lost in a crash
    again, recorder = begin(broken)
    checkpoints.load(again, {"recorder": recorder})
    recorder.begin(resumed=True)
    assert [point.slot for point in EstimateHistory(broken).points] == [49]
    go_on(broken, table, again, recorder, 160)
    assert same("tracked.jsonl", "suspects.jsonl", "neighbours.jsonl")
    finish(table, again, recorder)
    assert (broken / "suspects.jsonl").read_bytes() != live
    before = next(suspect for suspect in SuspectIndex(broken) if suspect.row < 900)
    decisions = Decisions(broken / "decisions.jsonl")
    decisions.decide(Decision(before.id, "drop", None, before.given))
    held = len(again.buffer)
    recorder.update(again.step())
    assert len(again.buffer) == held - 1  # rows held are known by name, also those from before


def test_a_run_begun_again_keeps_what_people_decided(table, tmp_path) -> None:
    for name in ("tracked.jsonl", "suspects.jsonl", "decisions.jsonl", "suspects.csv"):
        (tmp_path / name).write_text("{}\n")
    RunRecorder(tmp_path, make_trainer(table), about_of(table)).begin(resumed=False)
    assert {path.name for path in tmp_path.iterdir()} == {"decisions.jsonl", "about.json"}


def test_without_a_tracker_nothing_is_written_of_the_clean_ratio(table, tmp_path) -> None:
    trainer = make_trainer(table)
    trainer.tracker = None
    recorder = RunRecorder(tmp_path, trainer, about_of(table))
    recorder.begin(resumed=False)
    go_on(tmp_path, table, trainer, recorder, 60)
    recorder.end("stopped")
    assert not (tmp_path / "tracked.jsonl").exists()
    assert read_metadata(tmp_path).ended == "stopped"
    assert Run(tmp_path).state == "stopped early"


def test_alarms_of_slots_that_are_done_again_are_taken_back(table, tmp_path) -> None:
    trainer = make_trainer(table)
    recorder = RunRecorder(tmp_path, trainer, about_of(table))
    add_line(tmp_path / "alarms.jsonl", AlarmRecord(3, "noise", 0.9, 0.5).to_json())
    state = recorder.state_dict()
    add_line(tmp_path / "alarms.jsonl", AlarmRecord(70, "noise", 0.5, 0.9).to_json())
    recorder.load_state_dict(state)
    assert [alarm.slot for alarm in EstimateHistory(tmp_path).alarms] == [3]


def test_corrections_that_are_empty_at_first_are_followed(table, truth, tmp_path) -> None:
    corrections = tmp_path / "decisions.jsonl"
    corrections.touch()
    trainer = make_trainer(table)
    recorder = RunRecorder(tmp_path / "run", trainer, about_of(table), corrections)
    recorder.begin(resumed=False)
    go_on(tmp_path / "run", table, trainer, recorder, 20)
    given, _ = truth["scan-7"]
    Decisions(corrections).decide(Decision("scan-7", "drop", None, given))
    go_on(tmp_path / "run", table, trainer, recorder, 21)
    assert 7 not in trainer.buffer.pool().ids


def test_its_own_decisions_named_as_corrections_are_followed_once(table, tmp_path) -> None:
    recorder = RunRecorder(
        tmp_path, make_trainer(table), about_of(table), tmp_path / "decisions.jsonl"
    )
    assert recorder.given is None


def test_a_full_disk_costs_lines_and_not_the_run(table, tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    trainer = make_trainer(table)
    recorder = RunRecorder(tmp_path, trainer, about_of(table))
    recorder.begin(resumed=False)
    monkeypatch.setattr("tamis.runs.estimates.add_line", full)
    go_on(tmp_path, table, trainer, recorder, 60)
    assert recorder.failures == 1
    assert trainer.slots == 60


def test_slots_of_many_rows_are_looked_at_in_part(table, tmp_path) -> None:
    trainer = make_trainer(table)
    recorder = RunRecorder(tmp_path, trainer, about_of(table))
    for samples, names in table.named(500):
        recorder.update(trainer.step(samples), samples, names)
    assert len(recorder.live.state_dict()["waiting"]["slots"]) == 3 * MOST_A_SLOT
