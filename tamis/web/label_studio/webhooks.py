"""What the webhooks of Label Studio report: annotations created, updated, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tamis.runs.json_lines import int_or_none
from tamis.web.label_studio.config import LabelControl, read_config
from tamis.web.service_records import RequestError

CHANGED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")
DELETED = "ANNOTATIONS_DELETED"


class WebhookError(RequestError):
    """A request that is not a webhook of Label Studio, in one sentence."""


class Change(NamedTuple):
    """An annotation as it is now.

    `task` is None for one that was deleted: Label Studio sends its number only. `label` is None for
    one that was skipped or is empty; `drop` is set where the row is to be left out of training.
    """

    annotation: int
    task: Mapping[str, Any] | None = None
    label: str | None = None
    annotator: str | None = None
    time: str | None = None
    drop: bool = False


class LabelRecord(NamedTuple):
    """A label for the row of an id; None withdraws that of the annotator."""

    id: str
    label: str | None
    annotator: str | None
    time: str | None = None


def read_webhook(payload: object) -> list[Change]:
    """Return what a webhook reports of annotations; empty where it is about something else.

    Tasks and projects may change as they like: deleting a task does not withdraw its labels.
    """
    if not isinstance(payload, Mapping) or not isinstance(payload.get("action"), str):
        raise WebhookError("A webhook of Label Studio is a JSON object with an action.")
    if payload["action"] == DELETED:
        return [Change(number_of(one)) for one in objects(payload, "annotations")]
    if payload["action"] not in CHANGED:
        return []
    project = payload.get("project")
    control = read_config(project.get("label_config") if isinstance(project, Mapping) else None)
    annotations, tasks = objects(payload, "annotation"), objects(payload, "task")
    if len(annotations) != len(tasks):
        raise WebhookError("The webhook has not one task for each annotation.")
    pairs = zip(annotations, tasks, strict=True)
    return [read_change(annotation, task, control) for annotation, task in pairs]


def read_change(annotation: dict[str, Any], task: dict[str, Any], control: LabelControl) -> Change:
    """Return an annotation as it is now."""
    who, time = annotation.get("completed_by"), annotation.get("updated_at")
    cancelled = bool(annotation.get("was_cancelled"))
    return Change(
        number_of(annotation),
        task,
        None if cancelled else control.label_of(annotation),
        None if who is None else f"label-studio:{who}",
        time if isinstance(time, str) else None,
        drop=not cancelled and control.drops(annotation),
    )


def objects(payload: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects under a name, one or a list of them."""
    found = payload.get(name)
    listed: list[Any] = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in listed):
        raise WebhookError(f"The webhook has no {name}: it must send its payload.")
    return listed


def number_of(record: Mapping[str, Any]) -> int:
    """Return the number of an annotation."""
    number = int_or_none(record.get("id"))
    if number is None:
        raise WebhookError("There is an annotation without a number.")
    return number
