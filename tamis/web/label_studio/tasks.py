"""Tasks of Label Studio as rows, and guesses of the model as its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tamis.review.exchange.label_studio import DATA, MODEL
from tamis.sources.schema import Schema
from tamis.sources.schema.cells import is_absent, text_of
from tamis.web.label_studio.config import LabelControl

LAST = 1.0
"""Score of a task that nothing is known about; those of the lowest scores come first."""


def task_id(task: Mapping[str, Any], column: str | None = None) -> str:
    """Return the id of the row of a task: that in its data, or one made of the task's own number.

    >>> task_id({"id": 7, "data": {"id": "r1"}}), task_id({"id": 7, "data": {}})
    ('r1', 'label-studio:7')
    """
    data = data_of(task)
    for name in (column, "id"):
        if name and not is_absent(data.get(name)):
            return text_of(data[name])
    return f"label-studio:{task.get('id')}"


def data_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a task; empty where it has none."""
    data = task.get("data")
    return data if isinstance(data, Mapping) else {}


def inputs_of(task: Mapping[str, Any], schema: Schema) -> dict[str, Any] | None:
    """Return the input columns of a task; None where it has none of them, or is a suspect's.

    The task of a suspect has an abbreviated view of the row, which the run itself has in full.
    """
    data = data_of(task)
    found = {column.name: data[column.name] for column in schema.inputs if column.name in data}
    return None if is_suspect(data) or all(map(is_absent, found.values())) else found


def is_complete(inputs: Mapping[str, Any], schema: Schema) -> bool:
    """Return whether all input columns are there, be they empty: then it is a row to train on."""
    return len(inputs) == len(schema.inputs)


def is_suspect(data: Mapping[str, Any]) -> bool:
    """Return whether `tamis export` wrote this task, about a row of a run."""
    return all(name in data for name in DATA)


def given_label(task: Mapping[str, Any], schema: Schema) -> str | None:
    """Return the label that the row had before, if its task has one."""
    data = data_of(task)
    for name in ("given", schema.label):
        if name and not is_absent(data.get(name)):
            return text_of(data[name])
    return None


class Guess(NamedTuple):
    """What the model takes a row for, and the probability that it needs no review.

    `score` is the probability of the label that the row has, or where it has none, of the label
    guessed. The most suspicious labels have the lowest scores, and come first in Label Studio.
    """

    label: str | None
    score: float

    def to_prediction(self, control: LabelControl) -> dict[str, Any]:
        """Return the prediction as Label Studio takes it."""
        result = [] if self.label is None else control.result(self.label)
        return {"result": result, "score": self.score, "model_version": MODEL}


NO_GUESS = Guess(None, LAST)


def guess_of(probabilities: Sequence[float], classes: Sequence[str], given: str | None) -> Guess:
    """Return the guess by the probabilities of the classes, for a row that has a label or none.

    A label of no class is as suspicious as can be.

    >>> guess_of([0.25, 0.75], ["cat", "dog"], "cat"), guess_of([0.25, 0.75], ["cat", "dog"], None)
    (Guess(label='dog', score=0.25), Guess(label='dog', score=0.75))
    """
    best = max(range(len(classes)), key=probabilities.__getitem__)
    if given is None:
        return Guess(classes[best], probabilities[best])
    known = given in classes
    return Guess(classes[best], probabilities[classes.index(given)] if known else 0.0)


def suspect_guess(task: Mapping[str, Any]) -> Guess | None:
    """Return the guess that a suspect's task was exported with; None where it is no such task."""
    data = data_of(task)
    if not is_suspect(data):
        return None
    score, suggested = data["score"], data["suggested"]
    if not isinstance(score, int | float) or not 0 <= score <= 1 or is_absent(suggested):
        return NO_GUESS
    return Guess(text_of(suggested), 1 - float(score))
