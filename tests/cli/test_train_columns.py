"""tamis train on columns of any kind: what it prints, keeps, and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tamis.cli.main import main
from tamis.sources import Schema, read_schema

ROWS = 120


def write(path: Path, *, rename: str = "town", order: int = 1) -> Path:
    """Write customers with text, dates and 8% missing values, columns in one of two orders."""
    rng = np.random.default_rng(0)
    names = ["name", "age", rename, "joined", "note", "left"][::order]
    lines = [",".join(names)]
    for row in range(ROWS):
        wrong = row % 3 == 0
        cells = [f"C{row:04d}", str(rng.integers(18, 80)), "Oslo" if wrong else "Rome"]
        cells += [f"2024-0{1 + row % 9}-1{row % 10}", f"parcel came {'late' if wrong else 'early'}"]
        gaps = rng.random(4) < 0.08
        cells[1:] = ["" if gap else cell for gap, cell in zip(gaps, cells[1:], strict=True)]
        lines.append(",".join([*cells, "yes" if wrong else "no"][::order]))
    path.write_text("\n".join(lines))
    return path


def test_a_dry_run_prints_the_columns_and_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "customers.csv")
    out = tmp_path / "run"
    command = ["train", str(table), "--label", "left", "--dry-run", "--out", str(out)]
    assert main([*command, "--kind", "note=category", "age=category"]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    kinds = {name: lines[name][1] for name in ("name", "age", "town", "joined", "note")}
    assert kinds == {
        "name": "id", "age": "category", "town": "category", "joined": "datetime",
        "note": "category",
    }  # fmt: skip
    assert lines["joined"][2].endswith("%")
    assert not out.exists()
    out.mkdir()
    (out / "log.jsonl").write_text("")  # an earlier run: nothing of it is touched
    assert main(command) == 0


def test_the_schema_is_kept_with_the_run_and_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "customers.csv")
    test = write(tmp_path / "test.csv", order=-1)
    out = tmp_path / "run"
    command = ["train", str(table), "--label", "left", "--id", "name", "--slots", "60"]
    assert main([*command, "--test", str(test), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert float(printed.split("averaged weights ")[1].split(".\n")[0]) > 0.9
    assert not (out / "rejects.jsonl").exists()
    schema = read_schema(out / "schema.json")
    assert schema.classes == ("no", "yes")
    with safe_open(out / "model.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["tamis"])
    assert Schema.from_json(about["schema"]) == schema
    renamed = write(tmp_path / "renamed.csv", rename="city")
    again = [*command, "--test", str(renamed), "--out", str(tmp_path / "other")]
    assert main(again) == 2
    assert "has no column 'town'; is it 'city' now?" in capsys.readouterr().err


def test_progress_of_long_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tamis.monitoring.progress.QUIET", 0.0)
    table = write(tmp_path / "customers.csv")
    command = ["train", str(table), "--label", "left", "--slots", "3", "--out"]
    assert main([*command, str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert f"reading customers.csv: {ROWS} rows\n" in printed
    assert "looking for suspects: 0 rows\n" in printed
