"""tamis stream on rows whose labels come late, twice, changed, withdrawn, or never."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tamis.cli.main import main
from tests.support.commands import run_command

COLUMNS = [
    "--inputs", "a", "b", "--label", "kind", "--id", "id", "--classes", "ant", "bee", "--seed", "1",
]  # fmt: skip
Records = list[dict[str, Any]]


def late_rows(rows: int, *, late: int, missing: int = 0) -> Records:
    """Return records of rows, and so many records later of their labels, some of them odd.

    Every 10th label comes twice, every 10th is wrong at first and then changed, every 20th is
    withdrawn in the end. The last `missing` rows get no label.
    """
    draw = random.Random(0)  # noqa: S311
    events: list[tuple[float, dict[str, Any]]] = []
    for row in range(rows):
        kind = draw.randrange(2)
        values = {"a": draw.gauss(4 * kind, 1), "b": draw.gauss(0, 1)}
        events.append((row, {"id": f"row {row}", "at": row} | values))
        if row >= rows - missing:
            continue
        due = row + draw.uniform(0.5, 1.5) * late
        names = ["bee", "ant"] if kind else ["ant", "bee"]
        for given in labels_of(row, names):
            due += 2
            events.append((due, {"id": f"row {row}", "kind": given, "at": int(due)}))
    return [record for _, record in sorted(events, key=lambda event: event[0])]


def labels_of(row: int, names: list[str]) -> list[str | None]:
    """Return the labels of a row, one after the other."""
    if row % 10 == 3:
        return [names[0], names[0]]
    if row % 10 == 6:
        return [names[1], names[0]]
    return [names[0], None] if row % 20 == 9 else [names[0]]


def write(path: Path, records: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def stream(*arguments: object) -> int:
    return main(["stream", *map(str, arguments)])


def test_labels_that_come_late_are_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path / "rows.jsonl", late_rows(600, late=80, missing=40))
    assert stream(rows, *COLUMNS, "--drop", "at", "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "532 of 600 rows have a label; 68 wait for theirs." in printed.replace("\n", " ")
    assert " 0 bad" in printed
    assert "rejected" not in printed
    log = log_of(tmp_path / "run")
    agreements = [slot["agreement"] for slot in log if slot["agreement"] is not None]
    assert sum(agreements[-30:]) / 30 > 0.9
    assert (log[-1]["waiting"], log[-1]["skipped"]) == (68, 0)
    assert log[-1]["labelled"] == pytest.approx(532 / 600)


def test_a_time_limit_goes_by_the_times_of_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path / "rows.jsonl", late_rows(300, late=40, missing=100))
    assert (
        stream(rows, *COLUMNS, "--time", "at", "--wait-seconds", 70, "--out", tmp_path / "r") == 0
    )
    printed = capsys.readouterr().out.replace("\n", " ")
    assert (
        max(slot["waiting"] for slot in log_of(tmp_path / "r")) <= 80
    )  # some 70 s, one row a second
    assert "were removed without one" in printed


def test_no_more_wait_than_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write(tmp_path / "rows.jsonl", late_rows(300, late=40))
    out = tmp_path / "run"
    assert stream(rows, *COLUMNS, "--drop", "at", "--wait-rows", 20, "--out", out) == 0
    waiting = [slot["waiting"] for slot in log_of(out)]
    assert max(waiting) == 20
    assert "labels wait for their rows" in capsys.readouterr().out.replace("\n", " ")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path]:
    """A command, and a run of it that nothing has happened to."""
    folder = tmp_path_factory.mktemp("unbroken")
    rows = write(folder / "rows.jsonl", late_rows(400, late=60, missing=30))
    common = ["stream", rows, *COLUMNS, "--time", "at", "--wait-seconds", 100, "--save-every", 5]
    assert run_command(*common, "--out", folder / "run").returncode == 0
    return common, folder / "run"


@pytest.mark.parametrize("after", [1, 7, 23, 61])
def test_killed_at_any_slot_and_resumed_it_ends_bit_for_bit_the_same(
    begun: tuple[list[object], Path], tmp_path: Path, after: int
) -> None:
    (common, unbroken), killed = begun, tmp_path / "killed"
    assert (
        run_command(*common, "--out", killed, stop=signal.SIGKILL, after=after).returncode
        == -signal.SIGKILL
    )
    assert run_command(*common, "--out", killed, "--resume").returncode == 0
    for name in ("model.safetensors", "suspects.csv"):
        assert (unbroken / name).read_bytes() == (killed / name).read_bytes()
    one, other = (log_of(folder) for folder in (unbroken, killed))
    assert [slot["waiting"] for slot in one] == [slot["waiting"] for slot in other]


def test_a_time_limit_needs_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write(tmp_path / "rows.jsonl", late_rows(20, late=4))
    assert stream(rows, *COLUMNS, "--wait-seconds", 5, "--out", tmp_path / "run") == 2
    assert "needs --time" in capsys.readouterr().err


def test_a_decision_about_a_row_that_waits_is_its_label_and_stays_it(tmp_path: Path) -> None:
    records = late_rows(200, late=50)
    out = tmp_path / "run"
    out.mkdir()
    decision = {"id": "row 3", "decision": "relabel", "label": "bee", "given": "ant"}
    (out / "decisions.jsonl").write_text(json.dumps(decision) + "\n")
    rows = write(tmp_path / "rows.jsonl", records)
    assert stream(rows, *COLUMNS, "--drop", "at", "--out", out, "--overwrite") == 0
    suspects = (out / "suspects.csv").read_text()
    assert "row 3," not in suspects
