"""tamis stream on classes that come up: found, named, learned, resumed, corrected."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import tamis
from tamis.cli.main import main
from tamis.runs import Decision, Decisions, Run, read_metadata
from tamis.web.run_page import confusion_csv, render_run
from tests.support.commands import run_command

NAMES = ("ant", "bee", "cow", "dog")
COLUMNS = ("--inputs", "a", "b", "--label", "kind", "--seed", "1")
Records = list[dict[str, Any]]


def records(count: int, names: tuple[str, ...], first: int = 0) -> Records:
    """Return records of these kinds, each around a place of its own, one label in ten wrong."""
    draw = random.Random(first)  # noqa: S311
    found = []
    for row in range(first, first + count):
        kind = draw.randrange(len(names))
        given = kind if draw.random() < 0.9 else draw.randrange(len(names))
        place = {"a": draw.gauss(4 * (kind % 2), 0.7), "b": draw.gauss(4 * (kind // 2), 0.7)}
        found.append({"id": f"row {row}", "kind": names[given]} | place)
    return found


def growing(before: int = 400, after: int = 600) -> Records:
    """Return records of two kinds, then of four."""
    return records(before, NAMES[:2]) + records(after, NAMES, before)


def write(path: Path, rows: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in rows))
    return path


def stream(*arguments: object) -> int:
    return main(["stream", *map(str, arguments)])


def alarms_of(folder: Path) -> list[dict[str, Any]]:
    file = folder / "alarms.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def log_of(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if "seconds" not in key} for line in lines]


def test_classes_are_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, run = write(tmp_path / "rows.jsonl", growing()), tmp_path / "run"
    assert stream(rows, *COLUMNS, "--id", "id", "--out", run) == 0
    printed = capsys.readouterr().out
    classes = read_metadata(run).classes
    assert sorted(classes) == list(NAMES)
    assert set(classes[:2]) == set(NAMES[:2])
    assert json.loads((run / "schema.json").read_text())["classes"] == list(classes)
    new = [alarm for alarm in alarms_of(run) if alarm["kind"] == "new class"]
    assert [alarm["subject"] for alarm in new] == list(classes[2:])
    for alarm in new:
        assert f"Slot {alarm['slot']}: New class: {alarm['subject']}." in printed
    lengths = {len(line["class_picks"]) for line in log_of(run)}
    assert lengths == {2, 3, 4} or lengths == {2, 4}
    model = tamis.load(run)
    found = model.predict([{"a": 0, "b": 4}, {"a": 4, "b": 4}, {"a": 0, "b": 0}, {"a": 4, "b": 0}])
    assert found.tolist() == ["cow", "dog", "ant", "bee"]
    page = render_run(Run(run))
    assert all(f"New class: {name}." in page for name in classes[2:])
    assert confusion_csv(Run(run)).splitlines()[0] == "slot,class,given,share"
    assert main(["report", str(run)]) == 0


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[object, ...], Path]:
    """Options of a stream, and a run of them that nothing has happened to."""
    folder = tmp_path_factory.mktemp("unbroken")
    torch.set_num_threads(1)
    rows = write(folder / "rows.jsonl", growing())
    options = (rows, *COLUMNS, "--id", "id", "--save-every", 10)
    assert stream(*options, "--out", folder / "run") == 0
    return options, folder / "run"


@pytest.mark.parametrize("stop", [30, 41, 70])
def test_resumed_equals_unbroken(
    stop: int, unbroken: tuple[tuple[object, ...], Path], tmp_path: Path
) -> None:
    (options, one), two = unbroken, tmp_path / "two"
    assert stream(*options, "--out", two, "--slots", stop) == 0
    assert stream(*options, "--out", two, "--resume") == 0
    assert log_of(two) == log_of(one)
    assert alarms_of(two) == alarms_of(one)
    assert read_metadata(two).classes == read_metadata(one).classes
    weights = [(run / "model.safetensors").read_bytes() for run in (one, two)]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_killed_and_resumed_across_the_growth(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", growing(600, 600))
    options = ("stream", rows, *COLUMNS, "--id", "id", "--save-every", 4)
    assert run_command(*options, "--out", tmp_path / "one").returncode == 0
    resumed = (*options, "--out", tmp_path / "two", "--resume")
    for _ in range(7):
        run_command(*resumed, stop=signal.SIGKILL, after=18)
    assert run_command(*resumed).returncode == 0
    assert log_of(tmp_path / "two") == log_of(tmp_path / "one")
    assert alarms_of(tmp_path / "two") == alarms_of(tmp_path / "one")


def test_named_classes_are_all_unless_a_limit_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path / "rows.jsonl", growing(400, 200))
    given = (rows, *COLUMNS, "--classes", "bee", "ant")
    assert stream(*given, "--out", tmp_path / "closed") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "x label is not a class." in printed
    assert "can be new classes: --max-classes N." in printed
    assert read_metadata(tmp_path / "closed").classes == ("bee", "ant")
    assert stream(*given, "--max-classes", 3, "--out", tmp_path / "three") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "x label beyond the limit of classes." in printed
    assert "can be new classes" not in printed
    assert len(read_metadata(tmp_path / "three").classes) == 3
    assert read_metadata(tmp_path / "three").classes[:2] == ("bee", "ant")


@pytest.mark.parametrize("first", [1, 0])
def test_one_class_or_none_is_a_start(first: int, tmp_path: Path) -> None:
    """Rows of one class, or rows whose labels come later: the model begins with two places."""
    start = records(250, NAMES[:1])
    if not first:
        start = [record | {"kind": None} for record in start]
    rows = write(tmp_path / "rows.jsonl", start + records(500, NAMES[:3], 250))
    options = (rows, *COLUMNS, "--id", "id", "--save-every", 10)
    assert stream(*options, "--out", tmp_path / "run") == 0
    classes = read_metadata(tmp_path / "run").classes
    assert sorted(classes) == list(NAMES[:3])
    assert stream(*options, "--out", tmp_path / "two", "--slots", 27) == 0
    assert stream(*options, "--out", tmp_path / "two", "--resume") == 0
    assert log_of(tmp_path / "two") == log_of(tmp_path / "run")
    assert tamis.load(tmp_path / "run").predict([{"a": 0, "b": 4}]).tolist() == ["cow"]


def test_a_bad_record_names_no_class(tmp_path: Path) -> None:
    rows = records(300, NAMES[:2])
    rows[7] |= {"a": "nothing", "kind": "elk"}
    rows[250] |= {"a": "nothing", "kind": "fox"}
    run = tmp_path / "run"
    assert stream(write(tmp_path / "rows.jsonl", rows), *COLUMNS, "--out", run) == 0
    assert sorted(read_metadata(run).classes) == list(NAMES[:2])


def test_a_function_may_return_new_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reading.py").write_text(
        "def to_row(record):\n"
        "    label = ['ant', 'bee', 'cow', 'dog'].index(record['kind'])\n"
        "    return [record['a'], record['b']], label\n"
    )
    monkeypatch.chdir(tmp_path)
    rows = write(tmp_path / "rows.jsonl", growing(300, 300))
    assert stream(rows, "--rows", "reading:to_row", "--out", "run", "--save-every", 10) == 0
    assert read_metadata(Path("run")).classes == ("0", "1", "2", "3")
    options = (rows, "--rows", "reading:to_row", "--out", "two", "--save-every", 10)
    assert stream(*options, "--slots", 45) == 0
    assert stream(*options, "--resume") == 0
    assert log_of(Path("two")) == log_of(Path("run"))


def test_a_decision_may_name_a_class_that_nobody_gave(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", records(600, NAMES[:2]))
    decisions = Decisions(tmp_path / "decided.jsonl")
    for row in range(100, 120):
        decisions.decide(Decision(f"row {row}", "relabel", "elk", "ant", row, "me"))
    given = (rows, *COLUMNS, "--id", "id", "--corrections", decisions.path)
    run = tmp_path / "run"
    assert stream(*given, "--out", run, "--save-every", 10) == 0
    assert read_metadata(run).classes[2] == "elk"
    assert [alarm["subject"] for alarm in alarms_of(run)] == ["elk"]
    assert stream(*given, "--out", tmp_path / "two", "--save-every", 10, "--slots", 13) == 0
    assert stream(*given, "--out", tmp_path / "two", "--resume") == 0
    assert log_of(tmp_path / "two") == log_of(run)
    closed = tmp_path / "closed"
    assert stream(*given, "--classes", "ant", "bee", "--out", closed) == 0
    assert read_metadata(closed).classes == ("ant", "bee")


def test_a_decision_of_the_run_itself_grows_it(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", records(600, NAMES[:2]))
    options, run = (rows, *COLUMNS, "--id", "id", "--save-every", 10), tmp_path / "run"
    assert stream(*options, "--out", run, "--slots", 30) == 0
    Decisions(run / "decisions.jsonl").decide(
        Decision("row 200", "relabel", "elk", "ant", 200, "me")
    )
    assert stream(*options, "--out", run, "--resume") == 0
    assert read_metadata(run).classes[2] == "elk"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--max-classes", "1"], "--max-classes 1 is below 2"),
        (["--classes", "a", "b", "c", "--max-classes", "2"], "--max-classes 2 is below 3"),
        (["--classes", "a"], "one class only"),
    ],
)
def test_mistakes_are_explained(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path / "rows.jsonl", records(50, NAMES[:2]))
    assert stream(rows, *COLUMNS, *options, "--out", tmp_path / "run") != 0
    assert sentence in " ".join(capsys.readouterr().err.split())
