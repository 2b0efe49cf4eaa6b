"""Requests of a real Label Studio, answered for a run that is a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tamis.errors import TamisError
from tamis.runs import Suspect
from tamis.sources.schema import Schema, infer_schema
from tamis.web.label_studio import LabelConfigError, LabelRecord
from tamis.web.label_studio.backend import MOST_TASKS, Backend
from tamis.web.service_records import RequestError
from tests.web.label_studio.recorded import payload
from tests.web.label_studio.test_tasks import suspect

ANNOTATOR = "label-studio:1"


class ListedRun:
    """A run that keeps what it accepts, and predicts by the length of a text."""

    def __init__(self) -> None:
        table = {"text": ["a", "b", "c d"] * 9, "kind": ["cat", "dog", "cat"] * 9}
        self.schema: Schema = infer_schema(table, label="kind")
        self.slots = 12
        self.accepted: list[tuple[Any, Any]] = []
        self.full = False
        self.suspects: dict[str, Suspect] = {}

    def probabilities(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float] | None]:
        shares = [float(row["text"][-1]) / 10 for row in rows]
        return [{"cat": share, "dog": 1 - share} if share else None for share in shares]

    def suspect(self, name: str) -> Suspect | None:
        return self.suspects.get(name)

    def accept(self, rows: Mapping[str, Mapping[str, Any]], labels: Sequence[LabelRecord]) -> None:
        if self.full:
            raise TamisError("no room")
        self.accepted.append((dict(rows), list(labels)))


@pytest.fixture
def run() -> ListedRun:
    return ListedRun()


@pytest.fixture
def backend(run: ListedRun, tmp_path: Path) -> Backend:
    return Backend(run, tmp_path / "label-studio.jsonl")


def test_set_up_of_a_real_project(backend: Backend, run: ListedRun) -> None:
    assert backend.health()["status"] == "UP"
    assert backend.setup(payload("setup")) == {"model_version": "tamis@12"}
    run.slots = 13
    assert backend.setup(payload("setup")) == {"model_version": "tamis@13"}
    with pytest.raises(LabelConfigError):
        backend.setup(payload("setup") | {"schema": "<View/>"})


def test_predictions_of_real_tasks(backend: Backend) -> None:
    """Texts are `row 0` to `row 3`, all given the label cat; the first cannot be read."""
    made = backend.predict(payload("predict"))["results"]
    assert [one["score"] for one in made] == [1.0, 0.1, 0.2, 0.3]
    assert made[0]["result"] == []
    assert [one["result"][0]["value"]["choices"] for one in made[1:]] == [["dog"]] * 3


def test_suspects_have_the_score_of_today(backend: Backend, run: ListedRun) -> None:
    sent = payload("predict") | {"tasks": [suspect(0.9), {"id": 3, "data": {}}]}
    first, unknown = backend.predict(sent)["results"]
    assert first["score"] == pytest.approx(0.1)
    assert first["result"][0]["value"] == {"choices": ["dog"]}
    assert unknown == {"result": [], "score": 1.0, "model_version": "tamis"}
    run.suspects["r1"] = Suspect("r1", "dog", "cat", 0.6)
    (now, _) = backend.predict(sent)["results"]
    assert now["score"] == pytest.approx(0.4)
    assert now["result"][0]["value"] == {"choices": ["cat"]}


@pytest.mark.parametrize("body", [None, [], {"tasks": "x"}, {"tasks": ["x"]}, {"tasks": None}])
def test_what_is_no_request_to_predict(backend: Backend, body: Any) -> None:
    sent = body if not isinstance(body, dict) else payload("predict") | body
    with pytest.raises(RequestError):
        backend.predict(sent)


def test_too_many_tasks(backend: Backend) -> None:
    with pytest.raises(RequestError, match="select fewer"):
        backend.predict(payload("predict") | {"tasks": [{}] * (MOST_TASKS + 1)})


def test_annotations_of_a_real_user(backend: Backend, run: ListedRun) -> None:
    for name in ("tasks_created", "created", "skipped", "updated", "created_many", "deleted"):
        accepted = backend.webhook(payload(name))["accepted"]
        assert accepted == (name not in ("tasks_created", "skipped"))
    rows = [rows for rows, _ in run.accepted]
    assert rows == [
        {"r1": {"text": "row 1"}},
        {"r1": {"text": "row 1"}},
        {"r2": {"text": "row 2"}},
        {},
    ]
    labels = [(record.id, record.label, record.annotator) for _, (record,) in run.accepted]
    assert labels == [
        ("r1", "cat", ANNOTATOR), ("r1", "dog", ANNOTATOR), ("r2", "dog", ANNOTATOR),
        ("r1", None, ANNOTATOR),
    ]  # fmt: skip


def test_the_correction_of_a_suspect_is_a_label_alone(backend: Backend, run: ListedRun) -> None:
    sent = payload("created") | {"task": suspect()}
    backend.webhook(sent)
    ((rows, (record,)),) = run.accepted
    assert rows == {}
    assert (record.id, record.label) == ("r1", "cat")


def test_a_task_without_all_inputs_brings_a_label_alone(tmp_path: Path) -> None:
    run = ListedRun()
    table = {"text": ["a", "b c"] * 9, "size": [1, 2] * 9, "kind": ["cat", "dog"] * 9}
    run.schema = infer_schema(table, label="kind")
    backend = Backend(run, tmp_path / "label-studio.jsonl")
    sent = payload("created")
    backend.webhook(sent)
    sent["task"]["data"]["size"] = None
    backend.webhook(sent)
    assert [list(rows) for rows, _ in run.accepted] == [[], ["r1"]]


def test_a_deletion_that_is_not_accepted_can_be_sent_again(
    backend: Backend, run: ListedRun
) -> None:
    backend.webhook(payload("created"))
    run.full = True
    with pytest.raises(TamisError, match="no room"):
        backend.webhook(payload("deleted"))
    run.full = False
    assert backend.webhook(payload("deleted")) == {"accepted": 1}
    assert backend.webhook(payload("deleted")) == {"accepted": 0}
