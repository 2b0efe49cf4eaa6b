"""Tasks as rows, and guesses as predictions: the most suspicious labels come first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as with_each
from hypothesis import strategies as st

from tamis.review.exchange.label_studio import to_task
from tamis.review.exchange.rows import ReviewedRow
from tamis.runs import Suspect
from tamis.sources.schema import infer_schema
from tamis.web.label_studio import given_label, guess_of, inputs_of, read_config, task_id
from tamis.web.label_studio.tasks import NO_GUESS, Guess, suspect_guess
from tests.web.label_studio.recorded import payload

CLASSES = ("cat", "dog", "fox")
SCHEMA = infer_schema(
    {"text": ["a word", "two words", "three"] * 9, "size": [1, 2, 3] * 9, "kind": CLASSES * 9},
    label="kind",
)


def task(**data: Any) -> dict[str, Any]:
    return {"id": 7, "data": data}


def suspect(score: float = 0.9) -> dict[str, Any]:
    """Return the task of a suspect, as `tamis export` writes it."""
    found = Suspect("r1", "cat", "dog", score, 3, 5, {"text": "a wo…"})
    return {"id": 7, **to_task(ReviewedRow("r1", found))}


def test_ids_of_real_tasks() -> None:
    assert [task_id(one) for one in payload("predict")["tasks"]] == ["r0", "r1", "r2", "r3"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"customer": "c1", "id": "r1"}, "c1"),
        ({"customer": None, "id": "r1"}, "r1"),
        ({"id": 12}, "12"),
        ({"id": ""}, "label-studio:7"),
        ({}, "label-studio:7"),
    ],
)
def test_an_id_is_in_its_own_column_or_the_tasks(data: dict[str, Any], expected: str) -> None:
    assert task_id(task(**data), "customer") == expected
    assert task_id({"id": 7}) == "label-studio:7"


def test_inputs_are_the_columns_of_the_schema() -> None:
    assert inputs_of(task(text="a", size=3, id="x", kind="cat"), SCHEMA) == {"text": "a", "size": 3}
    assert inputs_of(task(text="a", size=None), SCHEMA) == {"text": "a", "size": None}
    assert inputs_of(task(text="", size=None), SCHEMA) is None
    assert inputs_of(task(id="x", kind="cat"), SCHEMA) is None
    assert inputs_of({"id": 7}, SCHEMA) is None


def test_the_view_of_a_suspect_is_no_row() -> None:
    found = suspect()
    assert found["data"]["text"] == "a wo…"
    assert inputs_of(found, SCHEMA) is None
    assert task_id(found) == "r1"


def test_given_labels() -> None:
    assert given_label(task(given="cat", kind="dog"), SCHEMA) == "cat"
    assert given_label(task(kind="dog"), SCHEMA) == "dog"
    assert given_label(task(kind="", text="a"), SCHEMA) is None


def test_a_guess_of_a_row_without_a_label_is_as_good_as_its_probability() -> None:
    assert guess_of([0.1, 0.6, 0.3], CLASSES, None) == Guess("dog", 0.6)


def test_a_label_of_no_class_comes_first() -> None:
    assert guess_of([0.1, 0.6, 0.3], CLASSES, "newt") == Guess("dog", 0.0)


@with_each(
    st.lists(
        st.tuples(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.sampled_from(CLASSES)),
        min_size=1,
        max_size=8,
    )
)
def test_scores_order_rows_by_the_probability_that_their_label_is_wrong(rows: Any) -> None:
    wrong, scores = [], []
    for numbers, given in rows:
        probabilities = [number / sum(numbers) for number in numbers]
        wrong.append(
            sum(p for p, name in zip(probabilities, CLASSES, strict=True) if name != given)
        )
        scores.append(guess_of(probabilities, CLASSES, given).score)
    assert scores == pytest.approx([1 - share for share in wrong])


def test_suspects_have_the_order_that_they_were_exported_in() -> None:
    exported = [suspect(score) for score in (0.99, 0.7, 0.6)]
    guesses = [suspect_guess(one) for one in exported]
    assert [guess and guess.label for guess in guesses] == ["dog"] * 3
    scores = [guess.score for guess in guesses if guess]
    assert scores == sorted(scores)
    assert scores == [one["predictions"][0]["score"] for one in exported]
    assert suspect_guess(task(text="a")) is None


@pytest.mark.parametrize("change", [{"score": "high"}, {"score": 2}, {"suggested": None}])
def test_a_suspects_task_that_was_edited_has_no_guess(change: dict[str, Any]) -> None:
    found = suspect()
    found["data"] |= change
    assert suspect_guess(found) == NO_GUESS


def test_predictions_are_as_label_studio_takes_them() -> None:
    control = read_config(payload("setup")["schema"])
    made = Guess("dog", 0.25).to_prediction(control)
    assert made["score"] == 0.25
    assert made["model_version"] == "tamis"
    assert made["result"][0]["value"] == {"choices": ["dog"]}
    assert Guess("fox", 0.25).to_prediction(control)["result"] == []  # no such choice
    assert NO_GUESS.to_prediction(control) == {
        "result": [], "score": 1.0, "model_version": "tamis",
    }  # fmt: skip
