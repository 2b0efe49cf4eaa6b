"""What goes to another tool comes back as it was, and hostile text is text everywhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from tamis.cli.main import main
from tamis.review import preview_image
from tamis.review.exchange import (
    FORMATS,
    ReviewedRow,
    UnreadableFileError,
    guess_format,
    import_decisions,
    read_run,
)
from tamis.review.exchange.rows import COLUMNS, read_int
from tamis.runs import Decision, Decisions, RunMetadata, Suspect, write_metadata, write_suspects

HOSTILE = [
    '=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "&amp;", " 1 ",
    "<script>x</script>", '"><img src=x onerror=y>', "a,b\nc", "{{ 7 * 7 }}", "../../up", "é 漢 🙂",
    "null",
]  # fmt: skip


def suspects() -> list[Suspect]:
    picture = preview_image(torch.rand(6, 6, generator=torch.Generator().manual_seed(0)))
    return [
        Suspect(
            name, HOSTILE[at], HOSTILE[(at + 1) % len(HOSTILE)], 0.5 + 0.49 / (at + 1), at, 3 * at,
            picture,
        )
        for at, name in enumerate(HOSTILE)
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a run with every kind of decision, all names hostile."""
    run = tmp_path / "run"
    write_metadata(run, RunMetadata("x", tuple(HOSTILE)))
    write_suspects(run, suspects())
    decisions = Decisions(run / "decisions.jsonl")
    for at, word in enumerate(("relabel", "keep", "drop", "skip", "relabel", "undo")):
        label = HOSTILE[-1] if word == "relabel" else None
        decisions.decide(Decision(HOSTILE[at], word, label, HOSTILE[at], at, "=ann"))
    decisions.decide(Decision("gone", "relabel", "+1", "-1", 99, "=ann"))
    return run


def path_of(name: str, tmp_path: Path) -> Path:
    return tmp_path / f"out{FORMATS[name].suffix}"


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name: str, folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    assert len(reviewed) == len(HOSTILE) + 1
    if name == "fiftyone":
        reviewed = [one for one in reviewed if one.preview]  # pictures only
    path = path_of(name, tmp_path)
    FORMATS[name].write(reviewed, classes, path)
    assert guess_format(path) == name
    back = FORMATS[name].read(path)
    for was, now in zip(reviewed, back, strict=True):
        cells = now.cells()
        if name in ("cleanlab", "fiftyone"):  # 1 - (1 - x) is not always x
            assert cells["score"] == pytest.approx(was.cells()["score"])
            cells |= {"score": was.cells()["score"]}
        assert cells == was.cells()


@pytest.mark.parametrize("name", FORMATS)
def test_what_comes_back_changes_nothing(name: str, folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    reviewed = [one for one in reviewed if one.preview]
    path = path_of(name, tmp_path)
    FORMATS[name].write(reviewed, classes, path)
    before = (folder / "decisions.jsonl").read_bytes()
    result = import_decisions(folder, FORMATS[name].read(path))
    assert (result.added, result.unchanged, result.unknown) == (0, 5, 0)
    assert (folder / "decisions.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", FORMATS)
def test_decisions_come_into_another_copy_of_the_run(name: str, folder: Path, tmp_path) -> None:
    reviewed, classes = read_run(folder, "all")
    reviewed = [one for one in reviewed if one.preview]
    path = path_of(name, tmp_path)
    FORMATS[name].write(reviewed, classes, path)
    copy = tmp_path / "copy"
    write_metadata(copy, RunMetadata("x", tuple(HOSTILE)))
    write_suspects(copy, suspects())
    assert main(["import", str(path), "--run", str(copy), "--author", "me"]) == 0
    there, here = (Decisions(run / "decisions.jsonl").in_force() for run in (folder, copy))
    del there["gone"]
    assert {key: (one.decision, one.label, one.author, one.row) for key, one in there.items()} == {
        key: (one.decision, one.label, one.author, one.row) for key, one in here.items()
    }


def test_no_cell_of_a_csv_is_a_formula(folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    for name in ("csv", "cleanlab"):
        path = tmp_path / f"{name}.csv"
        FORMATS[name].write(reviewed, classes, path)
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_an_edited_table_decides(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "edited.csv"
    rows = [
        ["id", "given", "label"],
        ["../../up", "../../up", " 1 "],
        ["null", "null", "null"],
        ["&amp;", "&amp;", ""],
        ["no such row", "a", "b"],
        ["{{ 7 * 7 }}", "{{ 7 * 7 }}", "no such class"],
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    result = import_decisions(folder, FORMATS["csv"].read(path), "ann")
    assert (result.added, result.unchanged, result.unknown) == (2, 0, 2)
    decisions = Decisions(folder / "decisions.jsonl")
    assert decisions.of("../../up").label == " 1 "
    assert decisions.of("null").decision == "keep"
    assert decisions.of("null").author == "ann"


def test_label_studio_reads_the_set_up(folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    FORMATS["label-studio"].write(reviewed, classes, tmp_path / "tasks.json")
    tree = ElementTree.parse(tmp_path / "tasks-config.xml")  # noqa: S314
    values = [choice.get("value") for choice in tree.findall("Choices[1]/Choice")]
    # XML turns tabs and line ends in an attribute into spaces, unless they are written as codes.
    assert values == list(classes)
    assert tree.find("Image").get("value") == "$image"
    task = json.loads((tmp_path / "tasks.json").read_text())[0]
    assert task["predictions"][0]["result"][0]["value"] == {"choices": [HOSTILE[1]]}
    assert task["data"]["image"].startswith("data:image/png;base64,")


def test_annotations_as_label_studio_exports_them(tmp_path: Path) -> None:
    def task(name: str, *annotations: dict) -> dict:
        return {"id": 1, "data": {"id": name, "given": "cat"}, "annotations": list(annotations)}

    def choose(control: str, value: str, when: str = "2026-01-01", **more: object) -> dict:
        result = {"from_name": control, "to_name": "row", "value": {"choices": [value]}}
        return {"result": [result], "completed_by": 7, "created_at": when, **more}

    path = tmp_path / "export.json"
    tasks = [
        task("a", choose("label", "dog")),
        task("b", choose("label", "cat")),
        task("c", choose("decision", "drop")),
        task("d", choose("label", "dog", was_cancelled=True)),
        task("e"),
        task("f", choose("label", "dog", "2026-01-01"), choose("label", "cat", "2026-01-02")),
        task("g", {"result": [{"type": "odd"}, None], "completed_by": {"email": "ann"}}),
    ]
    path.write_text(json.dumps(tasks))
    found = {one.id: one for one in FORMATS["label-studio"].read(path)}
    assert [found[name].cells()["decision"] for name in "abcdefg"] == [
        "relabel", "keep", "drop", "skip", None, "keep", None,
    ]  # fmt: skip
    assert found["a"].decision.label == "dog"
    assert found["a"].decision.author == "7"


def test_fiftyone_writes_files_under_numbers(folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    reviewed = [one for one in reviewed if one.preview]
    FORMATS["fiftyone"].write(reviewed, classes, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out" / "data").iterdir()}
    assert names == {f"{number:06d}.png" for number in range(len(HOSTILE))}
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert labels["classes"] == classes
    assert labels["labels"]["000000"]["attributes"]["id"] == HOSTILE[0]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "run"}


def test_a_label_changed_in_fiftyone_is_a_relabel(folder: Path, tmp_path: Path) -> None:
    reviewed, classes = read_run(folder)
    reviewed = [one for one in reviewed if one.preview]
    FORMATS["fiftyone"].write(reviewed, classes, tmp_path / "out")
    file = tmp_path / "out" / "labels.json"
    content = json.loads(file.read_text())
    content["labels"]["000010"]["label"] = 3  # a number of a class, as it exports them
    file.write_text(json.dumps(content))
    found = FORMATS["fiftyone"].read(tmp_path / "out")[10].decision
    assert (found.decision, found.label) == ("relabel", classes[3])


def test_rows_without_pictures_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="choose another format"):
        FORMATS["fiftyone"].write([ReviewedRow("a")], [], tmp_path / "out")


def test_tables_of_cleanlab_itself(tmp_path: Path) -> None:
    path = tmp_path / "issues.csv"
    path.write_text(
        "id,is_label_issue,label_score,given_label,predicted_label\n7,True,0.1,cat,dog\n"
    )
    assert guess_format(path) == "cleanlab"
    (found,) = FORMATS["cleanlab"].read(path)
    assert found.suspect == Suspect("7", "cat", "dog", pytest.approx(0.9))
    assert found.decision is None


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", "a,b\n1,2\n", "no column 'id'"),
        ("a.csv", "id,decision\n1,explode\n", "is not a decision"),
        ("a.csv", "id,decision\n1,undo\n", "is not a decision"),
        ("a.csv", "id,decision\n1,relabel\n", "has no label"),
        ("a.csv", "id,decision\n,keep\n", "without an id"),
        ("a.csv", "id,score\n1,much\n", "not a number"),
        ("a.csv", b"id\n\xff\xfe\n", "not a readable CSV"),
        ("a.jsonl", "[1]\n", "line 1"),
        ("a.jsonl", '{"id": 1}\nx\n', "line 2"),
        ("a.json", "{}", "no list of tasks"),
        ("a.json", "x", "no readable JSON"),
        ("a.parquet", "x", "not a readable Parquet"),
        ("a.parquet", 20 * "x", "not a readable Parquet"),
        ("a.txt", "x", "give --format"),
    ],
)
def test_files_that_are_none_cost_one_line(
    name: str, content: str | bytes, why: str, folder: Path, tmp_path: Path, capsys
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["import", str(path), "--run", str(folder)]) == 2
    printed = capsys.readouterr().err
    assert why in printed
    assert len(printed.strip().splitlines()) == 1
    assert not printed.strip().endswith("..")


def test_the_commands(folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "run", "--which", "open"]) == 0
    assert "12 rows: review-csv.csv" in capsys.readouterr().out
    with Path("review-csv.csv").open(newline="") as file:
        assert next(csv.reader(file)) == list(COLUMNS)
    assert main(["export", "run", "--which", "decided", "--format", "parquet"]) == 0
    assert main(["import", "review-parquet.parquet", "--run", "run"]) == 0
    assert "0 decisions added, 5 had been made before" in capsys.readouterr().out
    assert main(["export", "nowhere"]) == 2
    assert main(["import", "nowhere.csv", "--run", "run"]) == 2


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [("7", 7), ("", None), (7, 7), (7.0, 7), (float("nan"), None), (None, None), (True, None)],
)
def test_integers_come_as_text_numbers_and_floats(cell: object, wanted: int | None) -> None:
    found = read_int(cell)
    assert found == wanted
    assert type(found) is type(wanted)
