"""The experiment on late labels: its runs, its table, and that a stopped one continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.lab.late import Cell, Result, cells, run_cell
from tamis.lab.rows import read

SMALL = ["lab", "late", "--data", "digits", "--slots", "60", "--late", "10", "--clean", "0.7"]


def test_labels_that_are_late_are_worth_what_labels_on_time_are() -> None:
    settings = Cell(data="digits", slots=60)
    on_time, late = (run_cell(cell) for cell in cells(settings, [0.7], [10], 1))
    assert (on_time.arm, late.arm) == ("on time", "late")
    assert on_time.accuracy_ema > 0.6
    assert abs(on_time.accuracy_ema - late.accuracy_ema) < 0.05
    assert on_time.most_waiting < late.most_waiting <= late.limit
    assert 0.9 < late.labelled < 1.0  # some were withdrawn


def test_the_command_writes_its_table_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    arguments = [*SMALL, "--seeds", "1", "--out", str(tmp_path / "out"), "--page", str(page)]
    assert main(arguments) == 0
    assert "| digits, symmetric | 0.7 | 10 |" in page.read_text()
    results = read(tmp_path / "out" / "results.csv", Result)
    assert len(results) == 2
    assert main(arguments) == 0
    assert read(tmp_path / "out" / "results.csv", Result) == results
    assert "runs" not in capsys.readouterr().out.rpartition("Results:")[0].rpartition("Results:")[2]


@pytest.mark.parametrize("wrong", [["--late", "0"], ["--clean", "1.5"], ["--seeds", "0"]])
def test_settings_that_make_no_sense_are_refused(wrong: list[str], tmp_path: Path) -> None:
    assert main(["lab", "late", *wrong, "--out", str(tmp_path)]) == 2
