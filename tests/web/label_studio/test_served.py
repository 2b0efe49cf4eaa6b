"""Annotations of Label Studio become labels of a run, by way of its journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import Suspect, write_suspects
from tamis.web.label_studio import LabelRecord
from tamis.web.label_studio.backend import Backend
from tamis.web.label_studio.served import ServedByService
from tamis.web.service_records import RequestError
from tests.support.services import Opened, make_rows, opened, unlabelled
from tests.web.label_studio.recorded import webhook

OTHER = {"no": "yes", "yes": "no"}
NEW = {"n": "new", "age": 61.0, "town": "Rome"}


def backend_of(here: Opened) -> Backend:
    return Backend(ServedByService(here.service), here.run.folder / "label-studio.jsonl")


def test_a_new_row_comes_with_its_annotation_and_goes_with_it(here: Opened) -> None:
    backend, seen = backend_of(here), []
    for name, label in (("created", "no"), ("updated", "yes"), ("deleted", "")):
        assert backend.webhook(webhook(name, label, **NEW)) == {"accepted": 1}
        here.train()
        seen.append(here.held().get("new"))
    assert seen == ["no", "yes", None]


def test_a_row_that_the_run_has_is_relabelled(here: Opened) -> None:
    backend, before = backend_of(here), here.held()
    data = {"n": "r0"} | unlabelled(make_rows(120)[0])
    backend.webhook(webhook("created", OTHER[before["r0"]], **data))
    here.train()
    assert here.held() == before | {"r0": OTHER[before["r0"]]}
    assert here.run.trainer.held_count == len(before)
    backend.webhook(webhook("updated", before["r0"], n="r0"))  # without its inputs
    here.train()
    assert here.held() == before


@pytest.mark.parametrize("named", [False, True])
def test_a_suspect_of_a_table_is_relabelled(
    table: Callable[..., Path], tmp_path: Path, named: bool
) -> None:
    """Rows of a table have numbers, whether or not a column names them."""
    if named:
        lines = [{"n": f"r{at}"} | row for at, row in enumerate(make_rows(120))]
        (tmp_path / "named.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        folder = tmp_path / "run"
        words = ["train", str(tmp_path / "named.jsonl"), "--label", "y", "--id", "n"]
        assert main([*words, "--out", str(folder), "--slots", "25", "--capacity", "1000"]) == 0
    else:
        folder = table()
    tasks = tmp_path / "tasks.json"
    command = ["export", str(folder), "--format", "label-studio", "--out", str(tasks)]
    assert main(command) == 0
    exported = json.loads(tasks.read_text())
    with opened(folder) as here:
        backend, before = backend_of(here), here.held()
        data = exported[0]["data"]
        assert before[data["id"]] == data["given"]
        sent = webhook("created", OTHER[data["given"]], **data)
        backend.webhook(sent)
        here.train()
        assert here.held() == before | {data["id"]: OTHER[data["given"]]}
        name = "r3" if named else "3"
        backend.webhook(webhook("created", OTHER[before[name]], **make_rows(120)[3], id=name))
        here.train()
        assert here.held()[name] == OTHER[before[name]]
        assert here.run.trainer.held_count == len(before)
        assert here.run.trainer.waiting is not None
        assert len(here.run.trainer.waiting) == 0


def test_predictions_are_by_the_published_model_and_not_kept(here: Opened) -> None:
    run, end = ServedByService(here.service), here.journal.end
    rows = [unlabelled(row) for row in make_rows(5, seed=4)]
    unreadable = {"age": "old", "town": "Rome"}
    *found, none = run.probabilities([*rows, unreadable])
    assert none is None
    assert run.probabilities([]) == []
    assert here.journal.end == end
    assert run.slots == here.run.trainer.slots
    answered = here.service.predict(rows)
    expected = [each["probabilities"] for each in answered]
    assert [pytest.approx(shares, abs=1e-5) for shares in found if shares] == expected


def test_rows_that_cannot_be_read_leave_their_label(here: Opened) -> None:
    end = here.journal.end
    labels = [LabelRecord(name, "no", "ann") for name in ("good", "bad")]
    rows = {"good": {"age": 30, "town": "Oslo"}, "bad": {"age": "old", "town": "Oslo"}}
    ServedByService(here.service).accept(rows, labels)
    assert here.journal.end == end + 3
    here.train()
    assert here.held().get("good") == "no"
    assert "bad" not in here.held()
    assert here.run.trainer.waiting is not None
    assert here.run.trainer.waiting.waiting_labels == 1


def test_more_labels_than_a_request_may_have(here: Opened) -> None:
    labels = [LabelRecord(f"x{at}", "no", None) for at in range(2500)]
    ServedByService(here.service).accept({f"x{at}": NEW for at in range(2500)}, labels)
    assert here.journal.end == 5000


def test_a_label_of_no_class_is_refused(here: Opened) -> None:
    with pytest.raises(RequestError, match="no class 'perhaps'"):
        ServedByService(here.service).accept({}, [LabelRecord("r0", "perhaps", None)])


def test_a_clock_that_is_ahead_loses_no_label(here: Opened) -> None:
    other = OTHER[here.held()["r0"]]
    future = LabelRecord("r0", other, "ann", "2999-01-01T00:00:00Z")
    ServedByService(here.service).accept({}, [future])
    here.train()
    assert here.held()["r0"] == other


def test_suspects_are_read_as_they_are_written(here: Opened) -> None:
    run = ServedByService(here.service)
    assert run.suspect("nobody") is None
    write_suspects(here.run.folder, [Suspect("nobody", "no", "yes", 0.9)])
    found = run.suspect("nobody")
    assert found is not None
    assert found.score == 0.9
