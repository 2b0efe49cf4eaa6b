"""The requests that Label Studio sends to an ML backend, answered for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tamis.review.exchange.label_studio import MODEL
from tamis.runs import Suspect
from tamis.sources.schema import Schema
from tamis.web.label_studio.annotations import Annotations
from tamis.web.label_studio.config import read_config
from tamis.web.label_studio.tasks import (
    NO_GUESS,
    Guess,
    given_label,
    guess_of,
    inputs_of,
    is_complete,
    suspect_guess,
    task_id,
)
from tamis.web.label_studio.webhooks import LabelRecord, read_webhook
from tamis.web.service_records import RequestError

MOST_TASKS = 10_000
"""Tasks of one request, at the most."""


class ServedRun(Protocol):
    """What the backend needs of a run that is served."""

    @property
    def schema(self) -> Schema:
        """What the columns of rows are."""

    @property
    def slots(self) -> int:
        """Slots trained so far."""

    def probabilities(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float] | None]:
        """Return the probability of each class by name; None for a row that cannot be read."""

    def suspect(self, name: str) -> Suspect | None:
        """Return the suspect of an id, as it is scored now."""

    def accept(self, rows: Mapping[str, Mapping[str, Any]], labels: Sequence[LabelRecord]) -> None:
        """Make rows without labels, by their ids, and labels durable; they are trained on soon."""


class Backend:
    """Answers Label Studio: predictions by the averaged model, annotations as labels of rows.

    Parameters
    ----------
    run: the run that is served.
    path: file in which annotations are remembered.
    """

    def __init__(self, run: ServedRun, path: Path) -> None:
        self.run = run
        self.annotations = Annotations(path, run.schema.id)

    def health(self) -> dict[str, Any]:
        """Return that the backend is up."""
        return {"status": "UP", "model_class": MODEL}

    def setup(self, body: object) -> dict[str, Any]:
        """Return the version of the model, if the project has a label that can be trained on.

        The version counts slots, so that Label Studio asks again for predictions of a task that has
        some by an earlier model.
        """
        read_config(as_object(body).get("schema"))
        return {"model_version": f"{MODEL}@{self.run.slots}"}

    def predict(self, body: object) -> dict[str, Any]:
        """Return a prediction for each task, in order."""
        request = as_object(body)
        control, tasks = read_config(request.get("label_config")), request.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise RequestError("There is no list of tasks.")
        if len(tasks) > MOST_TASKS:
            raise RequestError(f"More than {MOST_TASKS:,} tasks at a time: select fewer of them.")
        return {"results": [guess.to_prediction(control) for guess in self.guesses(tasks)]}

    def webhook(self, body: object) -> dict[str, Any]:
        """Make what a webhook reports durable, and return how many labels were accepted."""
        changes = read_webhook(body)
        rows: dict[str, Mapping[str, Any]] = {}
        labels: list[LabelRecord] = []
        for change in changes:
            labels += self.annotations.records(change)
            inputs = change.task and inputs_of(change.task, self.run.schema)
            if change.task and inputs and change.label and is_complete(inputs, self.run.schema):
                rows[task_id(change.task, self.run.schema.id)] = inputs
        if labels:
            self.run.accept(rows, labels)
        for change in changes:
            self.annotations.forget(change)
        return {"accepted": len(labels)}

    def guesses(self, tasks: Sequence[Mapping[str, Any]]) -> list[Guess]:
        """Return what the model takes the row of each task for."""
        schema = self.run.schema
        inputs = [inputs_of(task, schema) for task in tasks]
        found = iter(self.run.probabilities([row for row in inputs if row is not None]))
        guesses = []
        for task, row in zip(tasks, inputs, strict=True):
            if row is None:
                guesses.append(self._suspect(task))
                continue
            shares = next(found)
            given = given_label(task, schema)
            guesses.append(guess_of([*shares.values()], [*shares], given) if shares else NO_GUESS)
        return guesses

    def _suspect(self, task: Mapping[str, Any]) -> Guess:
        """Return the guess of a row that the run has: as it is scored now, or was when exported."""
        now = self.run.suspect(task_id(task, self.run.schema.id))
        return Guess(now.suggested, 1 - now.score) if now else suspect_guess(task) or NO_GUESS


def as_object(body: object) -> dict[str, Any]:
    """Return a JSON object as it is; raise for anything else."""
    if not isinstance(body, dict):
        raise RequestError("The request is not a JSON object.")
    return body
