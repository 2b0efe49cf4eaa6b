"""A program of one's own around `TrainingRun`."""

from __future__ import annotations

import csv
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from torch import nn

from tamis import (
    Alarm,
    BadInputError,
    Naive,
    Plausible,
    Replay,
    Samples,
    Sliding,
    Trainer,
    TrainingRun,
)
from tamis.checkpoint import MismatchError, files, generations, load_model
from tamis.data import Picks, concat
from tamis.models import mlp, start
from tamis.noise.alarm import Change
from tamis.review import LabelCheck
from tamis.runs import (
    Decision,
    Decisions,
    EstimateLog,
    RunMetadata,
    Suspect,
    read_lines,
    read_metadata,
)
from tamis.sources import Rejects, SourceError, TooManyBadError, Validator
from tamis.streams import Constant, Symmetric
from tamis.training import signals
from tamis.training.divergence import DivergedError
from tamis.training.folder import FolderInUseError
from tamis.training.positions import Counted
from tamis.training.run import NotWrittenError, SaveEvery
from tests.support.faults.disk import small_files

SLOTS = 60


def make_trainer(rate: float = 0.1, **settings: Any) -> Trainer:
    model = start(mlp, (4,), 3, 0)
    optimizer = torch.optim.SGD(model.parameters(), rate)
    return Trainer(model, optimizer, Plausible(), Sliding(60), k=8, tracker=Alarm(3), **settings)


@pytest.fixture
def stream() -> Replay:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (4 * SLOTS,), generator=generator)
    inputs = 3 * torch.eye(4)[labels] + torch.randn(len(labels), 4, generator=generator)
    return Replay(inputs, labels, Symmetric(3), Constant(0.7), rows_per_slot=4)


def read_log(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if "seconds" not in key} for line in lines]


def test_two_lines_leave_a_complete_run(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        slots = list(run.train(stream))
    assert len(slots) == len(read_log(tmp_path)) == SLOTS
    metadata = read_metadata(tmp_path)
    assert (metadata.ended, metadata.classes) == ("done", ("0", "1", "2"))
    assert metadata.input_shape == (4,)
    for name in ("model.safetensors", "suspects.csv", "suspects.jsonl", "tracked.jsonl"):
        assert (tmp_path / name).exists(), name
    assert run.warnings() == []


def test_it_trains_what_the_bare_loop_trains(stream: Replay, tmp_path: Path) -> None:
    bare = make_trainer()
    picked = [slot.ids.tolist() for slot in bare.run(stream)]
    with TrainingRun(tmp_path, make_trainer()) as run:
        assert [slot.ids.tolist() for slot in run.train(stream)] == picked
    weights = zip(bare.model.parameters(), run.trainer.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)


def test_left_by_break_and_resumed_it_is_the_unbroken_run(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path / "once", make_trainer()) as run:
        list(run.train(stream))
    with TrainingRun(tmp_path / "twice", make_trainer()) as run:
        for slot in run.train(stream):
            if slot.number == 16:
                break
    assert run.saved_slot == 17
    with TrainingRun(tmp_path / "twice", make_trainer(), resume=True) as run:
        assert run.resumed
        assert [slot.number for slot in run.train(stream)] == list(range(17, SLOTS))
    for name in ("model.safetensors", "suspects.csv", "suspects.jsonl"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()
    assert read_log(tmp_path / "once") == read_log(tmp_path / "twice")


def test_a_crash_in_the_program_keeps_what_was_saved(stream: Replay, tmp_path: Path) -> None:
    def crash() -> None:
        with TrainingRun(tmp_path, make_trainer(), save_every=SaveEvery(10)) as run:
            for slot in run.train(stream):
                assert slot.number < 25, "a bug of the user's"

    with pytest.raises(AssertionError, match="a bug"):
        crash()
    assert read_metadata(tmp_path).ended is None
    with TrainingRun(tmp_path, make_trainer(), resume=True) as run:
        assert next(iter(run.train(stream))).number == 20


@pytest.mark.parametrize("allow_mismatch", [False, True])
def test_a_scheduler_is_saved_with_it(stream: Replay, tmp_path: Path, allow_mismatch: bool) -> None:
    def play(folder: str, slots: int, **how: Any) -> Trainer:
        trainer = make_trainer()
        scheduler = torch.optim.lr_scheduler.StepLR(trainer.optimizer, 10)
        parts = {"scheduler": scheduler}
        with TrainingRun(tmp_path / folder, trainer, others=parts, **how) as run:
            for _ in run.train(stream, slots):
                scheduler.step()
        return trainer

    once = play("once", 25)
    play("twice", 15)
    twice = play("twice", 25, resume=True, allow_mismatch=allow_mismatch)
    assert twice.optimizer.param_groups[0]["lr"] == once.optimizer.param_groups[0]["lr"] < 0.01
    weights = zip(once.model.parameters(), twice.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)


def test_a_row_that_is_refused_is_met_again(stream: Replay, tmp_path: Path) -> None:
    bad = Samples.of(torch.full((1, 4), torch.nan), torch.tensor([0]), 900)
    items = [*islice(stream, 5), bad]
    for resume in (False, True):
        with (
            pytest.raises(BadInputError, match="not finite"),
            TrainingRun(tmp_path, make_trainer(), resume=resume, save_every=SaveEvery(1)) as run,
        ):
            list(run.train(items))
        assert read_metadata(tmp_path).ended == "stopped"
        assert run.trainer.slots == 5


def test_whatever_ends_a_run_leaves_all_that_is_of_use(stream: Replay, tmp_path: Path) -> None:
    """The checkpoint is exact: resumed on a source that works, it is the unbroken run."""
    bad = Samples.of(torch.full((1, 4), torch.nan), torch.tensor([0]), 900)

    def failing(error: Exception | None) -> Iterator[Samples]:
        yield from islice(stream, 20)
        if error:
            raise error
        yield bad

    with TrainingRun(tmp_path / "unbroken", make_trainer()) as run:
        list(run.train(stream))
    ends = (SourceError("gone"), TooManyBadError("bad"), OSError(5, "I/O error"), None)
    for number, end in enumerate(ends):
        folder = tmp_path / str(number)
        kind = type(end) if end else BadInputError
        with pytest.raises(kind) as found, TrainingRun(folder, make_trainer()) as run:
            list(run.train(failing(end)))
        notes = found.value.__notes__
        assert "slot 20 is saved, the model is written, the suspects are listed" in notes[0]
        assert read_metadata(folder).ended == "stopped"
        for name in ("model.safetensors", "suspects.csv", "suspects.jsonl"):
            assert (folder / name).exists(), name
        with TrainingRun(folder, make_trainer(), resume=True) as run:
            assert [slot.number for slot in run.train(stream)] == list(range(20, SLOTS))
        unbroken, model = (tmp_path / name / "model.safetensors" for name in ("unbroken", folder))
        assert unbroken.read_bytes() == model.read_bytes()
        assert run.trainer.validator.seen == 4 * SLOTS


def test_suspects_that_could_not_be_written_are_not_called_listed(
    stream: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> Iterator[Samples]:
        yield from islice(stream, 20)
        raise SourceError("gone")

    fill_disk(monkeypatch, "suspects.csv")
    with pytest.raises(SourceError) as found, TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(failing()))
    assert "slot 20 is saved, the model is written." in found.value.__notes__[0]


def test_an_error_within_a_slot_saves_no_half_of_it(stream: Replay, tmp_path: Path) -> None:
    """Rows are held by then and not learned from: the checkpoint stays the one before."""

    class Failing(Plausible):
        failed = False

        def select(self, pool: Samples, *given: Any) -> Picks:
            if int(pool.ids.max()) >= 4 * 25 and not Failing.failed:
                Failing.failed = True
                raise OSError(5, "I/O error")
            return super().select(pool, *given)

    def failing_trainer() -> Trainer:
        model = start(mlp, (4,), 3, 0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        return Trainer(model, optimizer, Failing(), Sliding(60), k=8, tracker=Alarm(3))

    every = SaveEvery(10)
    with (
        pytest.raises(OSError, match="I/O error") as found,
        TrainingRun(tmp_path / "twice", failing_trainer(), save_every=every) as run,
    ):
        list(run.train(stream))
    assert "is saved" not in found.value.__notes__[0]
    assert "the model is written, the suspects are listed" in found.value.__notes__[0]
    with TrainingRun(tmp_path / "twice", failing_trainer(), resume=True) as run:
        assert [slot.number for slot in run.train(stream)] == list(range(20, SLOTS))
    with TrainingRun(tmp_path / "once", failing_trainer()) as run:
        list(run.train(stream))
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "twice")]
    assert models[0] == models[1]


def test_rows_that_were_refused_are_not_acknowledged(stream: Replay, tmp_path: Path) -> None:
    """A broker would forget them."""

    class Acknowledged(Counted):
        def acknowledge(self) -> None:
            acknowledged.append(self.offset)

    acknowledged: list[int] = []
    bad = Samples.of(torch.full((1, 4), torch.nan), torch.tensor([0]), 900)
    with (
        pytest.raises(BadInputError, match="not finite") as found,
        TrainingRun(tmp_path, make_trainer(), save_every=SaveEvery(3)) as run,
    ):
        list(run.train(Acknowledged([*islice(stream, 5), bad])))
    assert "slot 5 is saved" in found.value.__notes__[0]
    assert acknowledged == [0, 3]


def test_only_what_is_saved_is_acknowledged(
    stream: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the disk has the checkpoint's name, and not where that or anything before it failed."""

    class Acknowledged(Counted):
        def acknowledge(self) -> None:
            events.append(self.offset)

    def sync(path: Path) -> None:
        if path.name == "checkpoints":
            if run.trainer.slots in failing:
                raise OSError(28, "No space left on device")
            events.append("safe")
        synced(path)

    events: list[Any] = []
    failing, synced = (6, 9), generations.sync_folder
    monkeypatch.setattr(generations, "sync_folder", sync)
    with TrainingRun(tmp_path, make_trainer(), save_every=SaveEvery(3)) as run:
        list(run.train(Acknowledged(islice(stream, 14))))
    assert events == ["safe", 0, "safe", 3, "safe", 12, "safe", 14]
    assert run.checkpoints.failed == 2


def test_the_folder_of_a_run_is_synced_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut would take away all that is in it."""
    synced: list[str] = []
    monkeypatch.setattr(files, "sync_folder", lambda path: synced.append(path.name))
    TrainingRun(tmp_path / "runs" / "first", make_trainer())
    assert synced == [tmp_path.name, "runs"]


def test_a_diverged_run_leaves_its_model(stream: Replay, tmp_path: Path) -> None:
    trainer = make_trainer(patience=3)

    def diverge() -> None:
        with TrainingRun(tmp_path, trainer, save_every=SaveEvery(1)) as run:
            for slot in run.train(stream):
                if slot.number == 20:
                    trainer.optimizer.param_groups[0]["lr"] = 1e38

    with pytest.raises(DivergedError, match="last good checkpoint") as found:
        diverge()
    assert "the model is written" in found.value.__notes__[0]
    assert "is saved" not in found.value.__notes__[0]
    assert read_metadata(tmp_path).ended == "diverged"
    newest = max((tmp_path / "checkpoints").iterdir())
    assert json.loads((newest / "manifest.json").read_text())["slot"] == 21
    model = start(mlp, (4,), 3, 0)
    load_model(model, tmp_path / "model.safetensors")
    assert all(weights.isfinite().all() for weights in model.parameters())
    assert (tmp_path / "suspects.csv").exists()


def fill_disk(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Raise what a full disk does for files of these names."""

    def write(path: Path, pieces: Any) -> Any:
        if path.name.removesuffix(".part") in names:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        return written(path, pieces)

    written = files.write_synced
    patch.setattr(files, "write_synced", write)


def test_a_disk_that_is_full_at_the_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch, "about.json")
    with (
        pytest.raises(NotWrittenError, match="cannot be written to: No space left on device"),
        TrainingRun(tmp_path, make_trainer()),
    ):
        pass
    assert not (tmp_path / "about.json.part").exists()


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "suspects.csv",
        "suspects.jsonl",
        "neighbours.jsonl",
        "audit.jsonl",
        "about.json",
    ],
)
def test_a_disk_that_is_full_at_the_end_costs_one_file(
    name: str, stream: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(stream, 20))
        fill_disk(monkeypatch, name)
        with pytest.raises(NotWrittenError, match=f"lacks .*{name}.*, not written: No space left"):
            run.finish()
    for other in {"model.safetensors", "suspects.csv", "suspects.jsonl"} - {name}:
        assert (tmp_path / other).exists()
    monkeypatch.undo()
    with TrainingRun(tmp_path, make_trainer(), resume=True) as run:
        list(run.train(stream, 20))
    assert (tmp_path / name).exists()
    assert read_metadata(tmp_path).ended == "done"


def test_a_disk_that_is_full_for_a_while_costs_no_slot(
    stream: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata are written again once the shape of the inputs is known."""
    with TrainingRun(tmp_path, make_trainer()) as run:
        fill_disk(monkeypatch, "about.json", "suspects.jsonl")
        assert len(list(run.train(stream, 20))) == 20
        monkeypatch.undo()
    assert run.recorder.failures
    assert "files for the pages were not written" in " ".join(run.warnings())
    assert read_metadata(tmp_path).input_shape == (4,)


def test_a_full_disk_costs_lines_of_every_file_and_no_slot(stream: Replay, tmp_path: Path) -> None:
    """The system refuses every byte for ten slots: all else is as in a run with room."""
    roomy = play_with_bad_rows(stream, tmp_path / "roomy", full=range(0))
    assert roomy.warnings() == []
    with pytest.warns(UserWarning, match="Rejected rows cannot be written"):
        run = play_with_bad_rows(stream, tmp_path / "full", full=range(20, 30))
    assert run.trainer.validator.rejects.unwritten == 10
    printed = " ".join(run.warnings())
    assert "10 lines of the log could not be written" in printed
    assert "checkpoints were not saved" in printed
    assert "times the files for the pages were not written" in printed
    for name, written in (("log", 30), ("tracked", 6), ("alarms", 30), ("rejects", 30)):
        lines, room = (lines_by_slot(tmp_path / f / f"{name}.jsonl") for f in ("full", "roomy"))
        assert len(lines) == written
        assert lines == {slot: line for slot, line in room.items() if slot not in range(20, 30)}
    for name in ("model.safetensors", "suspects.csv", "suspects.jsonl", "neighbours.jsonl"):
        paths = (tmp_path / folder / name for folder in ("full", "roomy"))
        assert len({path.read_bytes() for path in paths}) == 1, name


def lines_by_slot(path: Path) -> dict[int, dict[str, Any]]:
    """Return the lines by slot, without what was measured; that of a bad row is in its id."""
    return {
        line.get("slot", line.get("position", 0) - 900): {
            key: line[key] for key in line if "seconds" not in key
        }
        for line in read_lines(path)
    }


def play_with_bad_rows(stream: Replay, folder: Path, full: range) -> TrainingRun:
    """Train 40 slots, each with a bad row and an alarm; in some of them the disk is full."""

    class Alarmed(Alarm):
        def pop_change(self) -> Change:
            return Change("noise", 0, 0.9, 0.5)

    trainer = make_trainer(
        validator=Validator(3, "skip", rejects=Rejects(folder / "rejects.jsonl"))
    )
    trainer.tracker = Alarmed(3)
    bad = [Samples.of(torch.full((1, 4), torch.nan), torch.tensor([0]), 900 + n) for n in range(40)]
    items = [concat([replace(one, clean=None), row]) for one, row in zip(stream, bad, strict=False)]
    with TrainingRun(folder, trainer, save_every=SaveEvery(4)) as run, ExitStack() as limit:
        run.recorder.live.every = 16
        run.recorder.estimates = EstimateLog(folder, trainer.tracker, every=5)
        for slot in run.train(items):
            if slot.number + 1 == full.start:
                limit.enter_context(small_files(0))
            elif slot.number + 1 == full.stop:
                limit.close()
    return run


def test_one_source_after_another(stream: Replay, tmp_path: Path) -> None:
    items = list(islice(stream, 8))
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(items[:3]))
    with TrainingRun(tmp_path, make_trainer(), resume=True) as run:
        assert len(list(run.train(items[:3]))) == 0  # all of it was read before
        assert len(list(run.train(items[3:]))) == 5


def test_it_takes_pairs_and_named_rows(tmp_path: Path) -> None:
    inputs, labels = torch.randn(12, 4), torch.arange(12) % 3
    pairs = [(inputs[at : at + 4].numpy(), labels[at : at + 4].numpy()) for at in (0, 4)]
    named = (Samples.of(inputs[8:], labels[8:], 8), ["i", "j", "k", "l"])
    decided = Decision("k", "relabel", "0")
    Decisions(tmp_path / "decisions.jsonl").decide(decided)
    with TrainingRun(tmp_path, make_trainer()) as run:
        assert len(list(run.train([*pairs, named]))) == 3
    held = run.trainer.buffer.pool()
    assert held.labels[held.ids == 10].tolist() == [0]
    names = dict(zip(held.ids.tolist(), next(iter(run.recorder.held_rows()))[1], strict=True))
    assert (names[0], names[9], names[10]) == ("0", "j", "k")


def test_a_folder_in_use_is_left_alone(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(stream, 5))
    before = (tmp_path / "log.jsonl").read_bytes()
    with pytest.raises(FolderInUseError, match="resume or overwrite"):
        TrainingRun(tmp_path, make_trainer())
    assert (tmp_path / "log.jsonl").read_bytes() == before
    with TrainingRun(tmp_path, make_trainer(), overwrite=True) as run:
        assert [slot.number for slot in run.train(stream, 3)] == [0, 1, 2]
    assert len(read_log(tmp_path)) == 3


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}])
def test_a_second_run_in_the_folder_is_refused(
    how: dict[str, bool], stream: Replay, tmp_path: Path
) -> None:
    with TrainingRun(tmp_path, make_trainer(), save_every=SaveEvery(1)) as run:
        for slot in run.train(stream, 6):
            if slot.number == 3:
                before = (tmp_path / "log.jsonl").read_bytes()
                with pytest.raises(FolderInUseError, match="Another process trains in"):
                    TrainingRun(tmp_path, make_trainer(), **how)
                assert (tmp_path / "log.jsonl").read_bytes() == before
    assert len(read_log(tmp_path)) == 6
    with TrainingRun(tmp_path, make_trainer(), resume=True) as run:  # the first has let go of it
        assert [slot.number for slot in run.train(stream, 8)] == [6, 7]


def test_two_that_start_at_once_do_not_share_the_folder(tmp_path: Path) -> None:
    one, other = (TrainingRun(tmp_path, make_trainer()) for _ in range(2))
    with one, pytest.raises(FolderInUseError, match="Another process"), other:
        pass


def test_other_settings_are_refused_and_the_new_rate_is_taken(
    stream: Replay, tmp_path: Path
) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(stream, 5))
    with (
        pytest.raises(MismatchError, match="lr"),
        TrainingRun(tmp_path, make_trainer(rate=0.01), resume=True),
    ):
        pass
    other = make_trainer(rate=0.01)
    with TrainingRun(tmp_path, other, resume=True, allow_mismatch=True) as run:
        list(run.train(stream, 8))
    assert other.optimizer.param_groups[0]["lr"] == 0.01


def test_training_goes_on_after_the_end_where_resumed(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        slots = list(run.train(stream, SLOTS + 10, continue_after_end=True))
    assert len(slots) == SLOTS + 10
    assert slots[-1].seen == slots[SLOTS - 1].seen


def test_without_rows_there_is_nothing_to_write(tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        assert list(run.train([], 10, continue_after_end=True)) == []
    assert read_metadata(tmp_path).ended == "stopped"
    assert not (tmp_path / "model.safetensors").exists()


def test_ctrl_c_ends_the_loop_after_the_slot(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        for slot in run.train(stream):
            if slot.number == 7:
                signal.raise_signal(signal.SIGINT)
    assert run.stop.number == signal.SIGINT
    assert run.saved_slot == len(read_log(tmp_path)) == 8
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_leaves_no_time_for_suspects(stream: Replay, tmp_path: Path) -> None:
    """Where the deadline passes they are left out; state and model are written before them."""
    with TrainingRun(tmp_path, make_trainer()) as run:
        for slot in run.train(stream):
            if slot.number == 7:
                before = monotonic()
                signal.raise_signal(signal.SIGINT)
                assert before < run.stop.deadline <= monotonic() + 5
                run.stop.deadline = monotonic()
    assert run.saved_slot == 8
    assert (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "suspects.csv").exists()
    assert read_metadata(tmp_path).ended == "stopped"


def test_rows_are_looked_at_until_4_seconds_after_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(signals, "monotonic", lambda: now)
    stop = signals.StopSignal()
    assert not stop.overdue
    with stop:
        signal.raise_signal(signal.SIGTERM)
    for seconds, overdue in ((0.0, False), (3.9, False), (4.1, True)):
        now = 100.0 + seconds
        assert stop.overdue == overdue


def test_a_run_that_is_stopped_early_leaves_the_queue(stream: Replay, tmp_path: Path) -> None:
    """Previews of all suspects take time, and somebody waits for the end."""
    with TrainingRun(tmp_path, make_trainer()) as run:
        run.recorder.live.every = 40
        for slot in run.train(stream):
            if slot.number == 45:
                queue = (tmp_path / "suspects.jsonl").read_bytes()
                signal.raise_signal(signal.SIGTERM)
                run.stop.deadline += 3600  # however slow the machine is
    assert len(queue) > 0
    assert (tmp_path / "suspects.jsonl").read_bytes() == queue
    assert (tmp_path / "suspects.csv").exists()


def test_at_the_end_the_worst_are_on_the_page_and_all_in_the_table(
    stream: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided in this folder stays on the page, which shows it, and not in the table."""
    found = [Suspect(str(n), "0", "1", 1 - n / 200_000, n) for n in range(50_002)]
    checked = LabelCheck(found, 60_000, 0.9)
    monkeypatch.setattr("tamis.training.run.check_labels", lambda *_, **__: checked)
    Decisions(tmp_path / "decisions.jsonl").decide(Decision("7", "keep"))
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(stream, 5))
    listed = [line["id"] for line in read_lines(tmp_path / "suspects.jsonl")]
    assert listed == [str(n) for n in range(50_000)]
    with (tmp_path / "suspects.csv").open(newline="") as file:
        names = [line["id"] for line in csv.DictReader(file)]
    assert names == [str(n) for n in range(50_002) if n != 7]
    about = read_metadata(tmp_path)
    assert (about.scored, about.wrong, about.clean_ratio) == (60_000, 6000, 0.9)


def test_a_second_ctrl_c_interrupts_at_once(stream: Replay, tmp_path: Path) -> None:
    """The last checkpoint is left, and nothing of the slot in progress."""

    def interrupt() -> None:
        with TrainingRun(tmp_path, make_trainer(), save_every=SaveEvery(5)) as run:
            for slot in run.train(stream):
                if slot.number == 7:
                    signal.raise_signal(signal.SIGINT)
                    signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert not (tmp_path / "model.safetensors").exists()
    with TrainingRun(tmp_path, make_trainer(), resume=True) as run:
        assert next(iter(run.train(stream))).number == 5


def test_decisions_outlive_a_run_that_is_replaced(stream: Replay, tmp_path: Path) -> None:
    with TrainingRun(tmp_path, make_trainer()) as run:
        list(run.train(stream, 3))
    path, name = tmp_path / "decisions.jsonl", str(int(next(iter(stream)).ids[0]))
    Decisions(path).decide(Decision(name, "relabel", "2"))
    before = path.read_bytes()
    with TrainingRun(tmp_path, make_trainer(), overwrite=True) as run:
        list(run.train(stream, 3))
    held = run.trainer.held()
    assert held.labels[held.ids == int(name)].tolist() == [2]
    assert path.read_bytes() == before


@pytest.mark.parametrize("continue_after_end", [False, True])
def test_a_source_that_waits_is_closed_by_a_signal(
    continue_after_end: bool, tmp_path: Path
) -> None:
    class Waiting(Counted):
        def __init__(self) -> None:
            super().__init__(())
            self.closed = threading.Event()

        def named(self) -> Iterator[Any]:
            yield Samples.of(torch.randn(8, 4), torch.arange(8) % 3), None
            threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
            assert self.closed.wait(60)

        def close(self) -> None:
            self.closed.set()

    with TrainingRun(tmp_path, make_trainer()) as run:
        slots = list(run.train(Waiting(), 5, continue_after_end=continue_after_end))
    assert len(slots) == 1
    assert run.stop.number == signal.SIGTERM
    assert run.saved_slot == 1


def test_another_thread_trains_without_signals(stream: Replay, tmp_path: Path) -> None:
    trained: list[int] = []

    def work() -> None:
        with TrainingRun(tmp_path, make_trainer()) as run:
            trained.extend(slot.number for slot in run.train(stream, 5))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert trained == [0, 1, 2, 3, 4]


def test_metadata_names_classes_for_decisions(stream: Replay, tmp_path: Path) -> None:
    metadata = RunMetadata("bugs", ("ant", "bee", "cow"), (4,))
    items = list(islice(stream, 2))
    first = str(int(items[0].ids[0]))
    with TrainingRun(tmp_path, make_trainer(), metadata) as run:
        for slot in run.train(items):
            if slot.number == 0:
                decided = Decision(first, "relabel", "cow")
                Decisions(tmp_path / "decisions.jsonl").decide(decided)
    held = run.trainer.buffer.pool()
    assert held.labels[held.ids == int(first)].tolist() == [2]


@pytest.mark.parametrize("given", [None, "1"])
def test_decisions_that_are_removed_meanwhile_end_nothing(
    given: str | None, stream: Replay, tmp_path: Path
) -> None:
    """Decisions made later are learned from; a label whose origin is lost stays as decided."""
    path = tmp_path / "decisions.jsonl"
    with TrainingRun(tmp_path, make_trainer()) as run:
        for slot in run.train(stream, 12):
            name = str(int(slot.ids[0]))
            if slot.number in (2, 3, 8):
                Decisions(path).decide(Decision(name, "relabel", "2", given=given))
            elif slot.number == 4:
                Decisions(path).decide(Decision(name, "drop", given=given))
            elif slot.number == 6:
                path.unlink()
    assert run.recorder.failures == 0
    assert len(run.recorder.decided()) == 1
    assert read_metadata(tmp_path).ended == "done"


def test_a_model_without_a_last_linear_layer_names_its_classes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, Naive(), Sliding(60), k=4)
    samples = Samples.of(torch.randn(6, 4), torch.arange(6) % 3)
    with TrainingRun(tmp_path, trainer) as run:
        assert len(list(run.train([samples]))) == 1


class Watching(Naive):
    """Records the labels of the rows that it could pick in each slot, by their ids."""

    def __init__(self) -> None:
        self.seen: list[dict[int, int]] = []

    def select(self, pool: Samples, *given: Any) -> Picks:
        self.seen.append(dict(zip(pool.ids.tolist(), pool.labels.tolist(), strict=True)))
        return super().select(pool, *given)


def watched_trainer() -> tuple[Trainer, list[dict[int, int]]]:
    model, selector = start(mlp, (4,), 3, 0), Watching()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Trainer(model, optimizer, selector, Sliding(60), k=8), selector.seen


def test_decisions_are_trained_on_in_the_next_slot(stream: Replay, tmp_path: Path) -> None:
    """Also those that people make while the source has nothing to read."""
    path, items = tmp_path / "run" / "decisions.jsonl", list(islice(stream, 8))

    def other(label: int) -> int:
        return (label + 1) % 3

    def waiting() -> Iterator[Samples]:
        for slot, samples in enumerate(items):
            if slot == 5:  # about a row of slot 4, by somebody who did not see slot 5
                row, label = int(items[4].ids[0]), int(items[4].labels[0])
                Decisions(path).decide(Decision(str(row), "relabel", str(other(label))))
                Decisions(path).decide(Decision(str(int(items[4].ids[1])), "drop"))
                coming = int(items[5].ids[0])  # not held yet
                Decisions(path).decide(Decision(str(coming), "drop"))
            yield samples

    trainer, seen = watched_trainer()
    with TrainingRun(tmp_path / "run", trainer) as run:
        for slot in run.train(waiting()):
            if slot.number == 2:
                row, label = int(items[0].ids[0]), int(items[0].labels[0])
                Decisions(path).decide(Decision(str(row), "relabel", str(other(label))))
    assert seen[2][row] == label
    assert seen[3][row] == other(label)
    late, gone = items[4].ids[:2].tolist()
    assert seen[4][late] == int(items[4].labels[0])
    assert seen[5][late] == other(int(items[4].labels[0]))
    assert [gone in labels for labels in seen[4:]] == [True, False, False, False]
    assert not any(int(items[5].ids[0]) in labels for labels in seen)


def test_decisions_of_another_run_are_trained_on_from_the_first_row(
    stream: Replay, tmp_path: Path
) -> None:
    """And those that the file gains later."""
    items, given = list(islice(stream, 4)), Decisions(tmp_path / "given.jsonl")
    wrong, gone, late = items[0].ids[:3].tolist()
    label = (int(items[0].labels[0]) + 1) % 3
    given.decide(Decision(str(wrong), "relabel", str(label)))
    given.decide(Decision(str(gone), "drop"))
    trainer, seen = watched_trainer()
    with TrainingRun(tmp_path / "run", trainer, corrections=given.path) as run:
        for slot in run.train(items):
            if slot.number == 1:
                given.decide(Decision(str(late), "drop"))
    assert [labels[wrong] for labels in seen] == [label] * 4
    assert not any(gone in labels for labels in seen)
    assert [late in labels for labels in seen] == [True, True, False, False]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
def test_what_holds_rows_is_for_the_owner_only(stream: Replay, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = play_with_bad_rows(stream, tmp_path, full=range(0))
        Decisions(run.folder / "decisions.jsonl").decide(Decision("1", "keep"))
    finally:
        os.umask(before)
    private = {path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077 == 0}
    hidden = {path for path in tmp_path.rglob("*") if private & {path, *path.parents}}
    names = {path.name for path in hidden}
    assert {"tensors.safetensors", "decisions.jsonl", "rejects.jsonl"} < names
    assert {"suspects.csv", "suspects.jsonl", "neighbours.jsonl", "audit.jsonl"} < names
    others = {path.name for path in set(tmp_path.rglob("*")) - hidden if path.suffix != ".lock"}
    assert others == {"about.json", "checkpoints", "log.jsonl", "model.safetensors"}
