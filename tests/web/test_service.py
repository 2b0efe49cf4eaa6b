"""The service: predictions, rows and labels, what is refused, and what a restart continues."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import pytest
import torch

import tamis
from tamis.cli.main import main
from tamis.runs import Decision, Decisions
from tamis.sources import BacklogError, NotWrittenRecordsError
from tamis.web.service_records import RequestError, StoppingError
from tests.support.services import (
    Opened,
    make_rows,
    opened,
    train_stream,
    train_table,
    unlabelled,
)
from tests.support.wait import END, wait_until


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_table(tmp_path_factory.mktemp("trained"), "--capacity", "1000")


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


ROWS = make_rows(30, seed=1)
INPUTS = [unlabelled(row) for row in ROWS]


def records(here: Opened) -> list[dict[str, Any]]:
    return [record for batch in here.journal.read() for record in batch.records]


def test_predictions_are_those_of_the_saved_model(folder: Path) -> None:
    wanted = tamis.load(folder).predict_proba(INPUTS)
    with opened(folder) as here:
        found = here.service.predict(INPUTS)
    assert [list(each["probabilities"]) for each in found] == [["no", "yes"]] * len(ROWS)
    shares = np.array([list(each["probabilities"].values()) for each in found])
    assert np.abs(shares - wanted).max() < 1e-5
    for each in found:
        assert each["probability"] == max(each["probabilities"].values())
        assert each["probabilities"][each["class"]] == each["probability"]


def test_ids_are_given_or_made(folder: Path) -> None:
    with opened(folder) as here:
        made = [each["id"] for each in here.service.predict(INPUTS[:20])]
        assert len(set(made)) == 20
        given = here.service.predict(INPUTS[:2], ids=["a", 7])
        assert [each["id"] for each in given] == ["a", "7"]
        assert [record["id"] for record in records(here)] == [*made, "a", 7]


def test_a_label_is_trained_on_in_the_next_slot(folder: Path) -> None:
    with opened(folder) as here:
        here.service.predict(INPUTS[:3], ids=["a", "b", "c"])
        here.train()
        room = here.run.trainer.waiting
        assert room is not None
        assert (room.came, room.joined, len(room)) == (3, 0, 3)
        here.service.label("b", "yes")
        assert here.train() == 1
        assert (room.joined, len(room)) == (1, 2)
        assert here.held()["b"] == "yes"
        assert here.service.counts["compared"] == 1


def test_labels_come_first_change_and_are_withdrawn(folder: Path) -> None:
    with opened(folder) as here:
        here.service.label("early", "no")
        here.train()
        here.service.predict(INPUTS[:1], ids=["early"])
        here.train()
        assert here.held()["early"] == "no"
        here.service.label("early", "yes")
        here.train()
        assert here.held()["early"] == "yes"
        here.service.withdraw("early")
        here.train()
        assert "early" not in here.held()
        here.service.label("early", "no")
        here.train()
        assert here.held()["early"] == "no"


def test_rows_with_labels_are_trained_on(folder: Path) -> None:
    with opened(folder) as here:
        names = here.service.add(ROWS)
        here.train()
        held = here.held()
        assert [held[name] for name in names] == [row["y"] for row in ROWS]
        assert here.run.trainer.validator.rejects.total == 0


def test_a_label_among_the_columns_of_a_row_is_not_its_label(folder: Path) -> None:
    """Who predicts rows of a labelled table does not train on them."""
    with opened(folder) as here:
        here.service.predict(ROWS)
        here.train()
        room = here.run.trainer.waiting
        assert room is not None
        assert (room.came, room.joined) == (len(ROWS), 0)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "1 to 1000 rows"),
        ([{}], "none of the columns"),
        ([{"age": None, "town": " "}], "none of the columns"),
        ([{"town": "Bern"}], "column missing: age"),
        ([INPUTS[0], {"age": "old", "town": "Bern"}], "Row 1 .* age is not of kind number: old"),
        ([{"age": 1e300, "town": "Bern"}], "Row 0"),
        ([{"age": float("nan"), "town": "Bern"}], "NaN and Infinity are not numbers"),
        ([{"age": 1, "town": [{"a": float("inf")}]}], "NaN and Infinity are not numbers"),
        ([INPUTS[0]] * 1001, "1 to 1000 rows"),
    ],
    ids=str,
)  # fmt: skip
def test_rows_that_cannot_be_read_are_refused(folder: Path, rows: list[Any], why: str) -> None:
    with opened(folder) as here:
        with pytest.raises(RequestError, match=why) as refused:
            here.service.predict(rows)
        assert str(refused.value).endswith(".")
        assert here.journal.end == 0


def test_what_is_accepted_is_never_rejected_later(folder: Path) -> None:
    """Odd rows are either refused at once, or trained on."""
    odd = [
        {"age": age, "town": town}
        for age in (0, -1e30, 3e38, "41", "1e3", "", None, True, [1], {"a": 1}, "x")
        for town in ("Bern", "", None, 3, "unseen " * 50, True, ["Bern"], {"a": 1})
    ]
    accepted = 0
    with opened(folder) as here:
        for row in odd:
            try:
                here.service.predict([row])
                accepted += 1
            except RequestError:
                pass
        here.train()
        room = here.run.trainer.waiting
        assert room is not None
        assert 0 < accepted < len(odd)
        assert room.came == accepted
        assert here.run.trainer.validator.rejects.total == 0


@pytest.mark.parametrize("label", ["maybe", "", " ", None, 3, 0.5, ["yes"], "x" * 5000])
def test_what_is_no_class_is_refused_with_the_classes(folder: Path, label: Any) -> None:
    with opened(folder) as here:
        with pytest.raises(RequestError) as refused:
            here.service.add([{**INPUTS[0], "y": label}])
        assert refused.value.details == {"classes": ["no", "yes"]}
        assert len(str(refused.value)) < 200
        assert here.journal.end == 0


@pytest.mark.parametrize("name", [None, "", "x" * 501, "a\n", "\ud800", 1.5, True, ["a"]])
def test_what_is_no_id_is_refused(folder: Path, name: Any) -> None:
    with opened(folder) as here:
        with pytest.raises(RequestError, match="An id"):
            here.service.label(name, "yes")
        with pytest.raises(RequestError, match="An annotator"):
            here.service.label("a", "yes", annotator=name or "")
        assert here.journal.end == 0


def test_a_time_in_the_future_is_refused(folder: Path) -> None:
    """It would send away all rows that wait."""
    with opened(folder) as here:
        for when in (time() + 3600, -1.0, float("nan")):
            with pytest.raises(RequestError, match="A time is"):
                here.service.label("a", "yes", time=when)
        here.service.label("a", "yes", time=1e9)
        (record,) = records(here)
        assert record == {"id": "a", "y": "yes", "time": 1e9}


def test_those_who_wait_are_answered_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One forward pass and one write for all, and a bad row costs its own request alone."""
    with opened(folder) as here:
        service, append, may_go = here.service, here.journal.append_encoded, threading.Event()
        writes: list[int] = []
        passes: list[int] = []

        def slow(found: list[Any]) -> list[int]:
            writes.append(len(found))
            may_go.wait(END)
            return append(found)

        predict = service.model.predict

        def count(inputs: torch.Tensor) -> Any:
            passes.append(len(inputs))
            return predict(inputs)

        monkeypatch.setattr(here.journal, "append_encoded", slow)
        monkeypatch.setattr(service.model, "predict", count)
        first = service.submit_rows(INPUTS[:1])
        wait_until(lambda: writes)
        others = [service.submit_rows([row]) for row in INPUTS[:20]]
        bad = service.submit_rows([INPUTS[0], {"age": "x", "town": "Bern"}])
        label = service.submit_labels([{"id": "a", "label": "yes"}])
        assert service.waiting == 23
        may_go.set()
        assert [len(work.result(END)) for work in (first, *others, label)] == [1] * 21 + [0]
        with pytest.raises(RequestError, match="Row 1"):
            bad.result(END)
        assert writes == [1, 21]
        assert passes == [1, 21]


def test_answers_do_not_depend_on_who_else_waits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as here:
        alone = [here.service.predict([row])[0]["probabilities"]["yes"] for row in INPUTS]
        together = [each["probabilities"]["yes"] for each in here.service.predict(INPUTS)]
        assert np.abs(np.array(alone) - together).max() < 1e-5


def test_the_model_is_published_after_a_slot(folder: Path) -> None:
    with opened(folder) as here:
        trainer, model = here.run.trainer, here.service.model
        inputs = trainer.held().inputs[:5]
        before = model.predict(inputs)
        trainer.step()  # weights change, and what predicts does not
        assert torch.equal(model.predict(inputs).probabilities, before.probabilities)
        assert model.publish()
        after = model.predict(inputs)
        assert after.slots == before.slots + 1
        assert torch.allclose(after.probabilities, trainer.averaged.probabilities(inputs))
        assert not torch.equal(after.probabilities, before.probabilities)
        for _ in range(3):
            trainer.step()
            assert model.publish()
        now = trainer.averaged.probabilities(inputs)
        assert torch.allclose(model.predict(inputs).probabilities, now)


def test_nobody_waits_for_the_model(folder: Path) -> None:
    """Who predicts with a copy keeps it; the trainer goes on, and publishes later."""
    with opened(folder) as here:
        trainer, model = here.run.trainer, here.service.model
        with model._current.lock:  # as within a prediction
            trainer.step()
            assert model.publish()
            trainer.step()
            assert not model.publish()
            assert model.slots == trainer.slots - 1
        assert model.publish()
        assert model.slots == trainer.slots


def test_a_disk_that_is_full_accepts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with opened(folder) as here:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(NotWrittenRecordsError, match="No space left on device"):
                here.service.label("a", "yes")
        here.service.label("b", "no")
        assert [record["id"] for record in records(here)] == ["b"]
        assert here.service.counts["labels"] == 1


def test_too_much_that_waits_is_refused(folder: Path) -> None:
    with opened(folder, most_unread=25) as here:
        here.service.predict(INPUTS[:20])
        with pytest.raises(BacklogError, match="20 records wait"):
            here.service.predict(INPUTS[:10])
        here.train()
        here.service.predict(INPUTS[:10])


def test_at_the_end_what_waits_is_answered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(folder) as here:
        append, may_go = here.journal.append_encoded, threading.Event()

        def slow(found: list[Any]) -> list[int]:
            may_go.wait(END)
            return append(found)

        monkeypatch.setattr(here.journal, "append_encoded", slow)
        works = [here.service.submit_labels([{"id": "a", "label": "yes"}]) for _ in range(5)]
        ending = threading.Thread(target=here.service.__exit__)
        ending.start()
        wait_until(lambda: not here.service.ready)
        with pytest.raises(StoppingError):
            here.service.label("b", "yes")
        may_go.set()
        ending.join(END)
        assert [work.result(0) for work in works] == [[]] * 5


def test_a_service_that_is_started_again_continues(folder: Path) -> None:
    with opened(folder) as here:
        here.service.add(ROWS[:10], ids=[f"a{n}" for n in range(10)])
        here.service.predict(INPUTS[10:20], ids=[f"b{n}" for n in range(10)])
        here.train()
        slots = here.run.trainer.slots
    with opened(folder) as here:
        assert here.run.trainer.slots == slots
        assert here.train() == 0
        for n in range(10):
            here.service.label(f"b{n}", ROWS[10 + n]["y"])
        here.train()
        held = here.held()
        assert {name: held[name] for name in held if name[0] in "ab"} == {
            **{f"a{n}": ROWS[n]["y"] for n in range(10)},
            **{f"b{n}": ROWS[10 + n]["y"] for n in range(10)},
        }
        room = here.run.trainer.waiting
        assert room is not None
        assert (room.came, room.joined, len(room)) == (20, 20, 0)


def test_what_was_not_saved_is_trained_on_again(folder: Path) -> None:
    """As after kill -9: the checkpoint is older than the journal."""
    saved = folder.parent / "saved"
    with opened(folder) as here:
        here.service.add(ROWS[:10])
        here.train()
        here.run.save()
        shutil.copytree(folder / "checkpoints", saved)
        here.service.add(ROWS[10:])
        here.train()
        names = set(here.held())
    shutil.rmtree(folder / "checkpoints")
    saved.rename(folder / "checkpoints")
    with opened(folder) as here:
        room = here.run.trainer.waiting
        assert room is not None
        assert room.came == 10
        here.train()
        assert set(here.held()) == names
        assert room.came == len(ROWS)


def test_other_sources_do_not_continue_what_was_served(
    trained: Path, folder: Path, capsys: Any
) -> None:
    with opened(folder) as here:
        here.service.add(ROWS)
        here.train()
    file = trained.parent / "rows.jsonl"
    words = ["train", str(file), "--label", "y", "--out", str(folder), "--resume"]
    assert main([*words, "--slots", "25", "--capacity", "1000"]) == 2
    assert "source was 'journal' and is None" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [["--model", "logistic"], ["--selector", "OGRS", "--set", "steps=2"]], ids=str
)
def test_runs_of_other_settings_are_continued(tmp_path: Path, more: list[str]) -> None:
    with opened(train_stream(tmp_path, "--drop", "town", *more)) as here:
        slots = here.run.trainer.slots
        here.service.add(ROWS)
        assert here.train() > 0
        assert here.run.trainer.slots > slots
        assert {"r1"} | set(here.held()) == set(here.held())


def test_a_stream_is_continued_with_its_rows_and_their_names(tmp_path: Path) -> None:
    with opened(train_stream(tmp_path)) as here:
        assert here.held()["r3"] == make_rows(120)[3]["y"]
        here.service.label("r3", "no")
        here.service.label("r4", "yes")
        here.train()
        assert (here.held()["r3"], here.held()["r4"]) == ("no", "yes")


@pytest.mark.parametrize("named", [False, True], ids=["numbers", "names"])
def test_rows_that_were_trained_on_before_are_known_by_their_ids(
    tmp_path: Path, named: bool
) -> None:
    """Of a table without ids by their numbers, also once rows with names have come."""
    rows = [{"who": f"C-{n}", **row} for n, row in enumerate(make_rows(120))]
    file, out = tmp_path / "rows.jsonl", tmp_path / "run"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train", str(file), "--label", "y", "--out", str(out), "--slots", "25"]
    assert main([*words, "--capacity", "1000", *(["--id", "who"] if named else [])]) == 0
    one, two, three = ("C-1", "C-2", "C-3") if named else ("1", "2", "3")
    other = {"no": "yes", "yes": "no"}
    with opened(out) as here:
        before = here.held()
        here.service.label(one, other[before[one]])
        here.service.add(ROWS[:1], ids=["new"])
        here.train()
        here.service.label(two, other[before[two]])
        here.service.withdraw(three)
        here.train()
        after = here.held()
    assert {name for name in before if before[name] != after.get(name)} == {one, two, three}
    assert three not in after
    assert set(after) - set(before) == {"new"}


def test_decisions_about_rows_without_names_count_when_others_have_names(folder: Path) -> None:
    with opened(folder) as here:
        before = here.held()["5"]
        here.service.add(ROWS[:1], ids=["new"])
        here.train()
        label = {"no": "yes", "yes": "no"}[before]
        Decisions(folder / "decisions.jsonl").decide(Decision("5", "relabel", label, before, 5))
        here.service.add(ROWS[:1])
        here.train()
        assert here.held()["5"] == label


@pytest.mark.parametrize("command", ["train", "stream"])
def test_annotators_are_known_from_the_run_on(tmp_path: Path, command: str) -> None:
    rows = [
        {"n": f"r{n}", "who": ("ann", "bob")[n % 2], **row} for n, row in enumerate(make_rows(120))
    ]
    file, out = tmp_path / "rows.jsonl", tmp_path / "run"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [command, str(file), "--label", "y", "--id", "n", "--annotator", "who"]
    assert main([*words, "--out", str(out), "--slots", "12", "--rows-per-slot", "10"]) == 0
    for times in (1, 2):
        with opened(out) as here:
            here.service.predict(INPUTS[:1], ids=["a"])
            here.service.label("a", "yes", annotator="bob")
            here.service.label("a", "no", annotator="cat")
            here.train()
            assert here.feed.annotator_names == ["ann", "bob", "cat"]
            annotators = here.run.trainer.annotators
            assert annotators is not None
            given = annotators.labels_given().tolist()
            assert given == [60, 60 + times, times]


def test_new_classes_are_learned_where_the_set_is_open(tmp_path: Path) -> None:
    out = train_stream(tmp_path, "--max-classes", "3")
    with opened(out) as here:
        here.service.add([{**row, "y": "maybe"} for row in INPUTS], ids=list(range(500, 530)))
        here.train()
        assert here.service.classes == ("no", "yes", "maybe")
        (found,) = here.service.predict(INPUTS[:1])
        assert list(found["probabilities"]) == ["no", "yes", "maybe"]
    with opened(out) as here:
        assert here.train() == 1  # the row that was predicted
        assert here.service.classes == ("no", "yes", "maybe")
        assert here.held()["500"] == "maybe"
        (found,) = here.service.predict(INPUTS[:1])
        assert list(found["probabilities"]) == ["no", "yes", "maybe"]
        with pytest.raises(RequestError, match="no class 'fourth'"):
            here.service.label("500", "fourth")


def test_code_of_a_users_own_is_not_run_because_a_folder_names_it(
    folder: Path, capsys: Any
) -> None:
    about = folder / "about.json"
    about.write_text(about.read_text().replace('"TableModel"', '"antigravity:build"'))
    assert main(["serve", str(folder)]) == 2
    assert "antigravity:build, code of your own: pass --model" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["checkpoints", "schema.json"])
def test_a_folder_that_cannot_be_served_is_one_sentence(
    folder: Path, missing: str, capsys: Any
) -> None:
    path = folder / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert main(["serve", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
