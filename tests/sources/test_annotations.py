"""Tables of labels by several annotators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis.sources import BadInputError, open_reader
from tamis.sources.annotations import Annotations, LabelColumns, find_columns, read_annotations


def read(text: str, tmp_path: Path, name: str = "labels.csv", **columns: str) -> Annotations:
    path = tmp_path / name
    path.write_text(text)
    return read_annotations(open_reader(path, list(columns.values())), **columns)


def triples(found: Annotations) -> list[tuple[str, str, str]]:
    """Return the labels by name."""
    numbers = zip(found.rows, found.annotators, found.labels, strict=True)
    return [
        (found.row_names[row], found.annotator_names[who], found.classes[label])
        for row, who, label in numbers
    ]


def test_labels_are_numbered_in_their_order(tmp_path: Path) -> None:
    found = read("task,worker,label\nt1,w1,dog\nt1,w2,cat\nt0,w1,cat\n", tmp_path)
    assert found.columns == LabelColumns("task", "worker", "label")
    assert found.classes == ["cat", "dog"]
    assert triples(found) == [("t1", "w1", "dog"), ("t1", "w2", "cat"), ("t0", "w1", "cat")]
    assert not found.rejects
    assert not found.known.any()


def test_lines_that_cannot_be_used_are_counted_once(tmp_path: Path) -> None:
    text = "task,worker,label\nt1,w1,a\n,,b\nt1,,b\nt1,w2,\nt1,w3\nt2,w2,b\n"
    found = read(text, tmp_path)
    assert triples(found) == [("t1", "w1", "a"), ("t2", "w2", "b")]
    assert found.rejects == {
        "it has no row": 1,
        "it has no annotator": 1,
        "it has no label": 1,
        "its fields do not fit the header": 1,
    }


def test_the_newest_label_of_an_annotator_counts(tmp_path: Path) -> None:
    found = read("task,worker,label\nt1,w1,a\nt1,w2,b\nt1,w1,b\nt2,w1,a\n", tmp_path)
    assert triples(found) == [("t1", "w2", "b"), ("t1", "w1", "b"), ("t2", "w1", "a")]
    assert found.repeated == 1


def test_truth_is_kept_apart(tmp_path: Path) -> None:
    text = "item,user,answer,gold\n1,u,a,a\n1,v,b,a\n2,u,b,\n3,u,a,z\n"
    found = read(text, tmp_path, truth="gold")
    assert found.columns == LabelColumns("item", "user", "answer", "gold")
    assert found.truth.tolist() == [0, -1, -1]
    assert found.known.tolist() == [True, False, True]


def test_json_lines_are_read_too(tmp_path: Path) -> None:
    records = [{"task": 1, "worker": "w", "label": 0}, {"task": 1, "worker": "v", "label": 1}]
    text = "\n".join([*map(json.dumps, records), "no JSON"])
    found = read(text, tmp_path, "labels.jsonl")
    assert triples(found) == [("1", "w", "0"), ("1", "v", "1")]
    assert found.rejects.total() == 1


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["id", "rater", "Label"], ("id", "rater", "Label")),
        (["id", "task_id", "workerId", "response"], ("task_id", "workerId", "response")),
        (["label", "item", "annotator_id", "x"], ("item", "annotator_id", "label")),
    ],
)
def test_usual_names_are_found(names: list[str], wanted: tuple[str, str, str]) -> None:
    assert find_columns(names, "t") == LabelColumns(*wanted)


def test_chosen_names_come_first() -> None:
    found = find_columns(["task", "worker", "label", "user"], "t", row="worker")
    assert found == LabelColumns("worker", "user", "label")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b,c\n1,2,3\n", {}, "called as rows usually are; it has a, b, c: name it by --row"),
        ("task,b,label\n1,2,3\n", {}, "name it by --annotator COLUMN"),
        ("task,worker,label\n1,2,3\n", {"row": "x"}, "no column 'x'; it has task"),
        ("task,worker,label\n1,2,3\n", {"row": "label", "label": "label"}, "three columns"),
        ("task,worker,label\n", {}, "holds no label"),
        ("", {}, "called as rows"),
        ("task,worker,label\n1,,3\n", {}, "holds no label"),
        ("task,worker,label\n1,2,3\n4,5,3\n", {}, "all labels in 'label' are '3'"),
        (
            "task,worker,label\n" + "".join(f"1,{n},{n}\n" for n in range(30)),
            {},
            "30 distinct values in 30 lines",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    text: str, columns: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=message) as error:
        read(text, tmp_path, **columns)
    assert "\n" not in str(error.value)
