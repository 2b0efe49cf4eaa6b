"""What webhooks report: as a real server sent them, and as they must not be."""

from __future__ import annotations

from typing import Any

import pytest

from tamis.review.exchange.label_studio import ACTION, choice, labelling_config
from tamis.web.label_studio import LabelConfigError, WebhookError, read_webhook, task_id
from tests.web.label_studio.recorded import payload


def test_an_annotation_created() -> None:
    (change,) = read_webhook(payload("created"))
    assert (change.annotation, change.label, change.annotator) == (1, "cat", "label-studio:1")
    assert change.time == payload("created")["annotation"]["updated_at"]
    assert change.task is not None
    assert task_id(change.task) == "r1"
    assert not change.drop


def test_an_annotation_updated() -> None:
    (change,) = read_webhook(payload("updated"))
    assert (change.annotation, change.label) == (1, "dog")
    assert change.time is not None
    assert change.time > payload("created")["annotation"]["updated_at"]


def test_many_annotations_created_at_once() -> None:
    (change,) = read_webhook(payload("created_many"))
    assert (change.annotation, change.label) == (3, "dog")
    assert change.task is not None
    assert task_id(change.task) == "r2"


def test_an_annotation_skipped_has_no_label_although_one_is_chosen() -> None:
    (change,) = read_webhook(payload("skipped"))
    assert payload("skipped")["annotation"]["result"]
    assert change.label is None
    assert change.task is not None


def test_an_annotation_deleted_is_a_number_only() -> None:
    (change,) = read_webhook(payload("deleted"))
    assert change == (1, None, None, None, None, False)


@pytest.mark.parametrize(
    "name", ["tasks_created", "tasks_deleted", "project_updated", "start_training"]
)
def test_others_change_nothing(name: str) -> None:
    assert read_webhook(payload(name)) == []


@pytest.mark.parametrize(("value", "drop"), [("drop", True), ("skip", False)])
def test_the_choice_to_drop_a_row(value: str, drop: bool) -> None:
    sent = payload("created")
    sent["project"]["label_config"] = labelling_config(["cat", "dog"], "text")
    sent["annotation"]["result"] = [choice(ACTION, value)]
    (change,) = read_webhook(sent)
    assert change.label is None
    assert change.drop is drop


def without(name: str) -> dict[str, Any]:
    sent: dict[str, Any] = payload("created")
    del sent[name]
    return sent


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (None, "JSON object with an action"),
        ([], "JSON object with an action"),
        ({"action": 3}, "JSON object with an action"),
        (without("annotation"), "must send its payload"),
        (without("task"), "must send its payload"),
        (payload("created") | {"task": []}, "one task for each"),
        (payload("created") | {"annotation": {"id": "1"}}, "without a number"),
        ({"action": "ANNOTATIONS_DELETED"}, "must send its payload"),
    ],
)
def test_what_is_no_webhook_is_refused_in_one_sentence(sent: Any, fault: str) -> None:
    with pytest.raises(WebhookError, match=fault):
        read_webhook(sent)


def test_a_project_without_a_label_is_refused() -> None:
    with pytest.raises(LabelConfigError):
        read_webhook(payload("created") | {"project": {"label_config": "<View/>"}})
    with pytest.raises(LabelConfigError):
        read_webhook(without("project"))
