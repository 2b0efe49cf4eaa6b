"""tamis annotators: one label for each row, and who gives which labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas
import pytest

from tamis.cli.main import main
from tests.support.crowd import crowd

CLASSES = ("ant", "bee", "[/b]")
LABELS = crowd(800, turns=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(
        {
            "task": [f"t{row}" for row in LABELS.rows],
            "worker": [f"w{who}" for who in LABELS.annotators],
            "label": [CLASSES[label] for label in LABELS.labels],
            "gold": [CLASSES[LABELS.truth[row]] if row < 500 else "" for row in LABELS.rows],
        }
    )
    frame.to_csv("labels.csv", index=False)
    frame.to_parquet("labels.parquet")
    return tmp_path


def read(name: str) -> list[dict[str, str]]:
    with Path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_rows_get_one_label_and_annotators_a_line(capsys) -> None:
    assert main(["annotators", "labels.csv", "--truth", "gold"]) == 0
    rows = read("labels-joint.csv")
    assert list(rows[0]) == ["task", "label", "probability", "labels"]
    assert [line["task"] for line in rows] == [f"t{row}" for row in range(800)]
    assert {line["labels"] for line in rows} == {"4"}
    right = sum(
        line["label"] == CLASSES[truth]
        for line, truth in zip(rows[:500], LABELS.truth[:500], strict=True)
    )
    assert right > 430
    annotators = read("labels-joint-annotators.csv")
    assert sorted(line["worker"] for line in annotators) == [f"w{who}" for who in range(8)]
    accuracies = [float(line["accuracy"]) for line in annotators]
    assert accuracies == sorted(accuracies)
    assert {line["worker"] for line in annotators[:2]} == {"w0", "w7"}
    (bad,) = [line for line in annotators if line["bad_since"]]
    assert bad["worker"] == "w7"
    assert abs(int(bad["bad_since_row"][1:]) - 400) < 50
    printed = " ".join(capsys.readouterr().out.split())
    assert "3200 labels (label) of 800 rows (task) by 8 annotators (worker), 3 classes" in printed
    assert f"Accuracy on 500 rows with a true class: {right / 500:.4f}; of majority" in printed
    assert f"from label {bad['bad_since']} on ({bad['bad_since_row']})" in printed
    assert "Open labels-joint-annotators.csv Join labels-joint.csv to your rows by" in printed


def test_formats_hold_the_same(capsys) -> None:
    assert main(["annotators", "labels.csv"]) == 0
    for out in ("joint.jsonl", "joint.parquet"):
        assert main(["annotators", "labels.parquet", "--out", out]) == 0
    wanted = [
        (line["task"], line["label"], int(line["labels"])) for line in read("labels-joint.csv")
    ]
    lines = map(json.loads, Path("joint.jsonl").read_text().splitlines())
    assert [(line["task"], line["label"], line["labels"]) for line in lines] == wanted
    frame = pandas.read_parquet("joint.parquet")
    assert [*zip(frame["task"], frame["label"], frame["labels"], strict=True)] == wanted
    assert len(pandas.read_parquet("joint-annotators.parquet")) == 8


def test_what_is_left_out_is_printed(capsys) -> None:
    text = Path("labels.csv").read_text().splitlines()
    Path("odd.csv").write_text("\n".join([*text, "t1,w1", "t1,,ant,", text[1], "t900,w1,ant,"]))
    assert main(["annotators", "odd.csv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 line left out: its fields do not fit the header" in printed
    assert "1 line left out: it has no annotator" in printed
    assert "1 label left out: the annotator gave the row another one later" in printed
    assert "1 row has only one label" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nothing.csv", "nothing.csv: No such file or directory."),
        ("labels.csv --row x", "labels.csv has no column 'x'; it has task, worker, label, gold."),
        ("labels.csv --out labels.csv", "--out labels.csv would overwrite labels.csv."),
        ("nothing.csv --out joint.xls", "joint.xls ends in none of .csv, .jsonl, .parquet."),
    ],
)
def test_a_mistake_costs_one_line(arguments: str, message: str, capsys) -> None:
    assert main(["annotators", *arguments.split()]) == 2
    assert capsys.readouterr().err == f"tamis annotators: {message}\n"
