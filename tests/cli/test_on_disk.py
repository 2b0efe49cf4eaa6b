"""--on-disk: the same run as in memory, killed and resumed, with late labels and decisions."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tamis.cli.main import main
from tests.cli.test_late_labels import COLUMNS, late_rows, log_of, write
from tests.support.commands import run_command

TIMES = ("select_seconds", "seconds", "time")


def decide(folder: Path, name: str, given: str, decision: str, label: str | None) -> None:
    folder.mkdir(exist_ok=True)
    line = {"id": name, "decision": decision, "given": given, "label": label}
    with (folder / "decisions.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def outcome(folder: Path) -> tuple[list[dict[str, object]], str]:
    """Return the log, without times, and the suspects."""
    lines = [{key: line[key] for key in line if key not in TIMES} for line in log_of(folder)]
    return lines, (folder / "suspects.csv").read_text()


def test_a_stream_with_late_labels_is_the_same_on_disk(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", late_rows(900, late=80, missing=40))
    words = [rows, *COLUMNS, "--drop", "at", "--capacity", "150", "--save-every", "10"]
    for folder in ("memory", "disk"):
        decide(tmp_path / folder, "row 700", "ant", "relabel", "bee")
        decide(tmp_path / folder, "row 702", "ant", "drop", None)
    words = ["stream", *map(str, words)]
    assert main([*words, "--out", str(tmp_path / "memory")]) == 0
    disk = [*words, "--on-disk", "--out", str(tmp_path / "disk")]
    killed = run_command(*disk, stop=signal.SIGKILL, after=57)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "disk" / "checkpoints" / "run.buffer.rows.inputs.blocks").exists()
    resumed = run_command(*disk, "--resume")
    assert resumed.returncode == 0, resumed.printed
    assert outcome(tmp_path / "disk") == outcome(tmp_path / "memory")


def test_a_table_is_the_same_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = "0.1,0.9,ant\n1.2,0.3,bee\n0.2,0.8,ant\n1.1,0.1,bee\n"
    (tmp_path / "rows.csv").write_text("x,y,kind\n" + 60 * kinds)
    words = ["train", str(tmp_path / "rows.csv"), "--label", "kind", "--capacity", "100"]
    assert main([*words, "--out", str(tmp_path / "memory")]) == 0
    assert main([*words, "--on-disk", "--out", str(tmp_path / "disk")]) == 0
    assert outcome(tmp_path / "disk") == outcome(tmp_path / "memory")
    capsys.readouterr()
    assert main([*words, "--on-disk", "--device", "meta", "--out", str(tmp_path / "no")]) == 2
    assert "--on-disk is for models on the CPU" in capsys.readouterr().err
