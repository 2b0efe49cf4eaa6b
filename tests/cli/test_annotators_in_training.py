"""tamis train and tamis stream on labels of several annotators, one of whom goes bad."""

from __future__ import annotations

import csv
import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tamis.cli.main import main
from tamis.runs import Run
from tamis.web.run_page import render_run
from tests.support.commands import run_command

KINDS = ("ant", "bee")
Records = list[dict[str, Any]]


def crowd_records(rows: int, per_row: int = 3, *, apart: bool = False) -> tuple[Records, list[str]]:
    """Return a record for each label, and the true class of each row.

    Of five annotators, Ann to Eve, Eve guesses in the second half. With `apart`, only the first
    record of a row has its inputs.
    """
    draw = random.Random(0)  # noqa: S311
    records, truth = [], []
    for row in range(rows):
        kind = draw.randrange(2)
        truth.append(KINDS[kind])
        values = {"a": round(draw.gauss(4 * kind, 1), 3), "b": round(draw.gauss(0, 1), 3)}
        for at, who in enumerate(draw.sample(["Ann", "Bob", "Cyd", "Dan", "Eve"], per_row)):
            guesses = draw.random() < 0.15 or (who == "Eve" and row >= rows // 2)
            given = draw.choice(KINDS) if guesses else KINDS[kind]
            inputs = {} if apart and at else values
            records.append({"id": f"row {row}", "who": who, "kind": given} | inputs)
    return records, truth


def write_csv(path: Path, records: Records) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "who", "kind", "a", "b"])
        writer.writeheader()
        writer.writerows(records)
    return path


def write_lines(path: Path, records: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def lines_of(path: Path) -> Records:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_folder(folder: Path) -> None:
    """Check that all that is written about annotators names Eve, and only her."""
    alarms = [alarm for alarm in lines_of(folder / "alarms.jsonl") if alarm["kind"] == "annotator"]
    assert [alarm["subject"] for alarm in alarms] == ["Eve"]
    assert alarms[0]["before"] > 0.8 > 0.7 > alarms[0]["after"]
    last = lines_of(folder / "annotators.jsonl")[-1]
    assert last["total"] == 5
    assert last["annotators"][0]["name"] == "Eve"
    assert {one["name"] for one in last["annotators"]} == {"Ann", "Bob", "Cyd", "Dan", "Eve"}
    assert last["annotators"][0]["since"] is not None
    assert all(one["since"] is None for one in last["annotators"][1:])
    page = render_run(Run(folder))
    assert "Annotator Eve has gone bad" in page
    assert "Accuracy of annotators" in page


def test_a_table_with_a_line_for_each_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, _ = crowd_records(600)
    table, out = write_csv(tmp_path / "labels.csv", records), tmp_path / "run"
    columns = ["--label", "kind", "--id", "id", "--annotator", "who"]
    assert main(["train", str(table), *columns, "--out", str(out)]) == 0
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "1800 labels of 600 rows by 5 annotators" in printed
    assert "Annotator Eve has gone bad" in printed
    check_folder(out)
    with (out / "suspects.csv").open() as file:
        suspects = list(csv.DictReader(file))
    ids = [suspect["id"] for suspect in suspects]
    assert len(set(ids)) == len(ids)  # a row is listed once, whatever the number of its labels
    assert all(suspect["annotator"] for suspect in suspects)
    given = {(record["id"], record["who"]): record["kind"] for record in records}
    assert all(given[s["id"], s["annotator"]] == s["given"] for s in suspects)
    about = json.loads((out / "about.json").read_text())
    assert about["scored"] == 600
    assert "who" not in about["columns"]


def test_a_stream_whose_labels_come_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, _ = crowd_records(600, apart=True)
    rows, out = write_lines(tmp_path / "rows.jsonl", records), tmp_path / "run"
    columns = ["--label", "kind", "--id", "id", "--annotator", "who", "--classes", *KINDS]
    assert main(["stream", str(rows), *columns, "--out", str(out)]) == 0
    assert " 0 bad" in capsys.readouterr().out
    check_folder(out)
    log = lines_of(out / "log.jsonl")
    assert (log[-1]["held"], log[-1]["waiting"]) == (600, 0)


def test_one_label_a_row_is_compared_with_the_model(tmp_path: Path) -> None:
    records, _ = crowd_records(2400, per_row=1)
    rows, out = write_lines(tmp_path / "rows.jsonl", records), tmp_path / "run"
    columns = ["--label", "kind", "--id", "id", "--annotator", "who", "--classes", *KINDS]
    assert main(["stream", str(rows), *columns, "--out", str(out)]) == 0
    check_folder(out)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path]:
    """A command, and a run of it that nothing has happened to."""
    folder = tmp_path_factory.mktemp("unbroken")
    records, _ = crowd_records(400, apart=True)
    rows = write_lines(folder / "rows.jsonl", records)
    common = ["stream", rows, "--label", "kind", "--id", "id", "--annotator", "who"]
    common += ["--classes", *KINDS, "--save-every", 5]
    assert run_command(*common, "--out", folder / "run").returncode == 0
    return common, folder / "run"


@pytest.mark.parametrize("after", [3, 41, 90])
def test_killed_at_any_slot_and_resumed_it_ends_bit_for_bit_the_same(
    begun: tuple[list[object], Path], tmp_path: Path, after: int
) -> None:
    (common, unbroken), killed = begun, tmp_path / "killed"
    stopped = run_command(*common, "--out", killed, stop=signal.SIGKILL, after=after)
    assert stopped.returncode == -signal.SIGKILL
    assert run_command(*common, "--out", killed, "--resume").returncode == 0
    names = ("model.safetensors", "suspects.csv", "annotators.jsonl", "alarms.jsonl")
    for name in names:
        assert (unbroken / name).read_bytes() == (killed / name).read_bytes(), name


def test_a_decision_stands_and_counts_for_those_who_labelled_the_row(tmp_path: Path) -> None:
    records, truth = crowd_records(120)
    out = tmp_path / "run"
    out.mkdir()
    wrong = KINDS[1 - KINDS.index(truth[3])]
    decision = {"id": "row 3", "decision": "relabel", "label": wrong, "given": truth[3]}
    (out / "decisions.jsonl").write_text(json.dumps(decision) + "\n")
    table = write_csv(tmp_path / "labels.csv", records)
    columns = ["--label", "kind", "--id", "id", "--annotator", "who"]
    command = ["train", str(table), *columns, "--out", str(out), "--overwrite"]
    assert main(command) == 0
    last = lines_of(out / "annotators.jsonl")[-1]
    assert sum(one["labels"] for one in last["annotators"]) == 360
    assert "row 3," not in (out / "suspects.csv").read_text()
