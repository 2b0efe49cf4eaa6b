"""Precision and recall by class: against a test table, or else against decisions."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import Decision, Decisions, Run, RunMetadata, write_metadata
from tamis.runs.confusion import ConfusionCounts, TestCounts, write_test_counts
from tamis.web.class_scores import MOST_CLASSES, MOST_LISTED, class_scores
from tamis.web.run_page import render_run
from tests.support.review_client import Client
from tests.support.sample_run import BAD
from tests.support.table_run import make_table_run

PAIRS = [("cat", "cat")] * 6 + [("cat", "dog")] * 2 + [("dog", "dog")] * 3 + [("fox", "cat")]


def numbers(page: str) -> list[dict[str, str]]:
    """Return the rows of the CSV that a page has in it."""
    found = re.search(r'download="precision_recall.csv" href="data:text/csv[^,]+,([^"]+)"', page)
    assert found
    return list(csv.DictReader(io.StringIO(base64.b64decode(found[1]).decode())))


def test_scores_are_those_of_a_loop() -> None:
    found = ConfusionCounts.of(PAIRS)
    assert (found.rows, found.right) == (len(PAIRS), 9)
    for score in found.by_class():
        labelled = [pair for pair in PAIRS if pair[0] == score.name]
        predicted = [pair for pair in PAIRS if pair[1] == score.name]
        right = sum(a == b for a, b in labelled)
        assert (score.rows, score.predicted, score.right) == (len(labelled), len(predicted), right)
        assert score.recall == right / len(labelled)
        assert score.precision == (right / len(predicted) if predicted else None)
    assert [score.name for score in found.by_class()] == ["cat", "dog", "fox"]
    assert found.confused() == [("cat", "dog", 2), ("fox", "cat", 1)]
    assert ConfusionCounts.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("text", ["", "[]", '{"counts": 7}', '{"counts": [["a", "b", -1]]}', "{"])
def test_a_damaged_file_holds_no_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "test.json").write_text(text)
    assert TestCounts(tmp_path).found is None


def test_the_report_has_the_scores_of_a_test_table(tmp_path: Path) -> None:
    folder = make_table_run(tmp_path / "run")
    assert "Pass a table whose labels are right by <code>--test</code>" in render_run(Run(folder))
    write_test_counts(folder, ConfusionCounts.of([*PAIRS, (BAD, "cat")], "test.csv"))
    page = render_run(Run(folder))
    assert (
        "the averaged weights predict 9 of the 13 rows of the test table, test.csv, correctly"
        in page
    )
    assert "<b>cat</b> predicted as <b>dog</b>: 2 of 8" in page
    assert BAD not in page
    rows = {row["class"]: row for row in numbers(page)}
    assert rows["cat"] == {
        "class": "cat", "rows": "8", "predicted": "8", "right": "6", "precision": "0.7500",
        "recall": "0.7500",
    }  # fmt: skip
    assert rows["fox"]["precision"] == ""
    assert rows["fox"]["recall"] == "0.0000"


def test_without_a_test_table_decisions_are_compared_with_what_was_suggested(
    tmp_path: Path, serve
) -> None:
    folder = make_table_run(tmp_path / "run")
    client = Client(serve(folder).server_port)
    made = [("C-0", "relabel", "stayed"), ("C-1", "relabel", "unsure"), ("C-2", "keep", None)]
    made += [("C-3", "drop", None), ("C-4", "skip", None)]
    for name, decision, label in made:
        assert client.post({"id": name, "decision": decision, "label": label})[0] == 200
    page = client.ask("/classes")[2]
    assert "compared with the labels that people decided on, for 3 suspects" in page
    rows = list(csv.DictReader(io.StringIO(client.ask("/numbers/precision_recall.csv")[2])))
    scores = {row["class"]: (row["precision"], row["recall"]) for row in rows}
    assert scores == {
        "stayed": ("0.3333", "1.0000"), "left": ("", "0.0000"), "unsure": ("", "0.0000"),
    }  # fmt: skip
    assert "for 3 suspects" in render_run(Run(folder))


def test_a_suggestion_that_changes_later_does_not_count(tmp_path: Path) -> None:
    """What was suggested is written down with the decision: later the model has learned it."""
    write_metadata(tmp_path, RunMetadata("t"))
    decisions = Decisions(tmp_path / "decisions.jsonl")
    decisions.decide(Decision("a", "relabel", "dog", "cat", suggested="fox"))
    decisions.decide(Decision("b", "keep", None, "cat"))  # by an older version: not known
    assert Run(tmp_path).confusion.counts == {("dog", "fox"): 1}


def test_of_many_classes_the_most_confused_are_listed() -> None:
    pairs = [(f"c{at:03d}", f"c{at:03d}") for at in range(200)] + [("c150", "c199")] * 5
    found = class_scores(ConfusionCounts.of(pairs))
    assert len(found.classes) == MOST_LISTED
    assert found.left_out == 200 - MOST_LISTED
    table = found.table
    assert len(table.rows) == len(table.names) == MOST_CLASSES
    assert f"The {MOST_CLASSES} classes that are confused most" in table.caption
    assert table.names[0] == "c150"
    assert "c199" in table.names
    assert [score.name for score in found.lowest] == ["c150"]


def test_train_counts_the_predictions_of_a_test_table(tmp_path: Path) -> None:
    rows = ["x,y,kind"] + [
        f"{row % 7},{row % 3},{'a' if row % 7 > 2 else 'b'}" for row in range(60)
    ]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(rows))
    command = ["train", str(table), "--label", "kind", "--test", str(table), "--slots", "30"]
    assert main([*command, "--model", "logistic", "--out", str(tmp_path / "run")]) == 0
    found = Run(tmp_path / "run").test.found
    assert found
    assert (found.name, found.rows) == ("t.csv", 60)
    assert {label for label, _ in found.counts} == {"a", "b"}
