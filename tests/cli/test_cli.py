"""The command line as a person uses it."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tamis.checkpoint import load_model
from tamis.cli.listing import parts
from tamis.cli.main import main
from tamis.models import Scale, mlp
from tamis.selectors import SELECTORS, Oracle
from tamis.streams import Constant, GroundTruth, Replay, Symmetric, digits
from tests.support.commands import run_command


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits with 30% wrong labels as CSV, named by class, and a few rows that are broken."""
    data = digits()
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347)
    samples = next(iter(stream))
    path = tmp_path_factory.mktemp("table") / "digits.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *[f"p{pixel}" for pixel in range(64)], "digit"])
        for number, (pixels, label) in enumerate(
            zip((16 * samples.inputs.flatten(1)).tolist(), samples.labels.tolist(), strict=True)
        ):
            writer.writerow([f"scan-{number}", *pixels, f"number {label}"])
        writer.writerow(["scan-nan", *["nan"] * 64, "number 1"])
        writer.writerow(["scan-short", "1"])
        writer.writerow(["scan-unnamed", *["0"] * 64, ""])
    return path


@pytest.fixture(scope="module")
def few(table: Path) -> Path:
    """The first 200 rows, where the number of rows does not matter."""
    path = table.with_name("few.csv")
    path.write_text("".join(table.read_text().splitlines(keepends=True)[:201]))
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_train_finds_wrong_labels(table: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    arguments = ["train", str(table), "--label", "digit", "--id", "name", "--out", str(out)]
    arguments += ["--model", "mlp"]
    assert main([*arguments, "--rows-per-slot", "50", "--slots", "600"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 rows rejected" in printed or "1 row rejected" in printed
    assert "1348 of 1349 rows have a label; 1 wait" in printed
    band = r" \(0\.\d+ to [01]\.\d+\)[^.]*"
    pattern = rf"clean ratio: (0\.\d+){band}\. About (\d+) of 1348 labels are wrong\."
    found = re.search(pattern, printed)
    assert found
    ratio, wrong_count = float(found[1]), int(found[2])
    assert ratio == pytest.approx(0.7, abs=0.05)
    assert ratio == pytest.approx(1 - wrong_count / 1348, abs=0.005)
    about = json.loads((out / "about.json").read_text())
    assert (about["scored"], about["wrong"]) == (1348, wrong_count)
    reasons = [
        json.loads(line)["reason"] for line in (out / "rejects.jsonl").read_text().splitlines()
    ]
    assert reasons == ["fields do not fit the header"]
    assert len((out / "log.jsonl").read_text().splitlines()) == 600

    data = digits()
    ground_truth = GroundTruth.of(
        Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347)
    )
    wrong = {f"scan-{number}" for number in ground_truth.wrong_ids}
    suspects = read_csv(out / "suspects.csv")
    found = [row["id"] in wrong for row in suspects]
    assert np.mean(found[:100]) > 0.97
    assert sum(found) > 0.9 * len(wrong)
    assert suspects[0]["given"].startswith("number ")
    scores = [float(row["score"]) for row in suspects]
    assert scores == sorted(scores, reverse=True)

    model = nn.Sequential(Scale(torch.zeros(64), torch.ones(64)), mlp((64,), 10))
    about = load_model(model, out / "model.safetensors")
    assert about["selector"] == "Plausible"
    assert about["classes"] == [f"number {number}" for number in range(10)]
    predicted = model((16 * data.test_inputs).flatten(1)).argmax(dim=1)
    assert (predicted == data.test_labels).float().mean() > 0.85


def test_train_the_same_twice_is_the_same(few: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        main(
            ["train", str(few), "--label", "digit", "--drop", "name", "--slots", "20"]
            + ["--out", str(tmp_path / name)]
        )
    one, two = (tmp_path / name / "suspects.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_train_with_parts_of_ones_own(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from tamis import Naive\n"
        "class Mine(Naive):\n"
        "    pass\n"
        "def build(shape, classes):\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(shape[0], classes))\n"
    )
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 5))
    np.savez("rows.npz", x=inputs, y=(inputs[:, 0] > 0).astype(int))
    np.savez("test.npz", x=inputs, y=(inputs[:, 0] > 0).astype(int))
    command = "train rows.npz --label y --test test.npz --model mine:build --selector mine:Mine"
    assert main([*command.split(), "--slots", "300", "--buffer", "reservoir"]) == 0
    accuracy = re.search(r"averaged weights (0\.\d+)", capsys.readouterr().out)
    assert accuracy
    assert float(accuracy[1]) > 0.9


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "required"),
        ("fly", "tamis: no command 'fly' (see tamis --help)"),
        ("train", "required"),
        ("train none.csv --label y", "none.csv"),
        ("train rows.txt --label y", "ends in none of"),
        ("train rows.csv --label z", "no column 'z'; it has a, y"),
        ("train rows.csv --label y --model resnet18", "it needs images, and the rows have"),
        ("train rows.csv --label y --out rows.csv", "rows.csv is a file, not a folder"),
        ("train rows.csv --label y --out rows.csv/run", "rows.csv is a file, not a folder"),
        (f"train rows.csv --label y --out {300 * 'x'}", "File name too long"),
        ("train rows.csv --label y --drop q", "no column 'q'"),
        ("train rows.csv --label y --selector Nope", "no selector 'Nope'"),
        ("train rows.csv --label y --selector oracle", "needs to know which labels are right"),
        ("train rows.csv --label y --selector no.where:X", "cannot be imported"),
        ("train rows.csv --label y --selector ITLM --set keep=7", "keep=7"),
        ("train rows.csv --label y --selector ITLM --set kept=0.7", "has the settings keep"),
        ("train rows.csv --label y --model nope", "no model 'nope'"),
        ("train rows.csv --label y --model json:dumps", "json:dumps"),
        ("train rows.csv --label y --device warp", "warp"),
        ("train rows.csv --label y --ema 2", "decay"),
        ("train rows.csv --label y --k 0", "--k"),
        ("train rows.csv --label y --rate 1e38 --slots 99", "lower the learning rate"),
        ("train rows.csv --label y --on-bad shrug", "shrug"),
        ("train rows.csv --label y --nonsense", "no option --nonsense"),
        ("train one.csv --label y", "one class only, '0'"),
        ("train rows.csv --label y --kind a=colour", "a=colour is not COLUMN=KIND"),
        ("train rows.csv --label y --kind q=text", "no column 'q' to be 'text'"),
        ("train header.csv --label y", "no labelled row"),
        ("train empty.csv --label y", "no column 'y'"),
        ("train bad.parquet --label y", "not a readable Parquet file"),
        ("train bad.npz --label y", "not a readable NPZ file"),
        ("train short.csv --label y --on-bad raise", "Row 1: fields do not fit the header"),
        ("train rows.csv --label y --test other.csv", "never trained on: 7"),
    ],
)
def test_a_mistake_costs_one_line_and_code_2(
    arguments: str, text: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,y\n1,0\n2,1\n3,0\n")
    Path("rows.txt").write_text("a,y\n1,0\n")
    Path("other.csv").write_text("a,y\n1,0\n2,7\n")
    Path("one.csv").write_text("a,y\nred,0\nblue,0\n")
    Path("short.csv").write_text("a,b,y\n1,1,0\n1\n1,2,1\n")
    Path("header.csv").write_text("a,y\n")
    Path("empty.csv").write_text("")
    Path("bad.parquet").write_text("nonsense")
    Path("bad.npz").write_text("nonsense")
    try:
        code = main(arguments.split())
    except SystemExit as stop:
        code = stop.code
    printed = capsys.readouterr()
    assert code == 2
    assert text in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_an_earlier_run_is_not_overwritten(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,y\n1,0\n2,1\n3,0\n")
    command = ["train", "rows.csv", "--label", "y", "--slots", "3"]
    assert main(command) == 0
    assert main(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_ctrl_c_saves(few: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", few, "--label", "digit", "--drop", "name", "--out", out]
    done = run_command(*words, "--slots", 1_000_000, stop=signal.SIGINT, after=30)
    assert done.returncode == 130
    assert "all is saved" in done.printed
    assert (out / "model.safetensors").exists()
    assert read_csv(out / "suspects.csv")
    for line in (out / "log.jsonl").read_text().splitlines():
        json.loads(line)


def test_list_names_everything(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for found in parts().values():
        for part in found:
            assert re.search(rf"{part.__name__} +\w.*\.", printed), part.__name__


@pytest.mark.parametrize("name", [kind.__name__ for kind in SELECTORS if kind is not Oracle])
def test_train_takes_every_selector(name: str, few: Path, tmp_path: Path) -> None:
    arguments = ["train", str(few), "--label", "digit", "--drop", "name", "--selector", name]
    arguments += ["--slots", "15", "--warm-up", "5", "--rows-per-slot", "12", "--model", "mlp"]
    arguments += ["--out", str(tmp_path)]
    assert main([*arguments, "--window", "average", "--buffer", "PuriDivER"]) == 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert all(json.loads(line)["loss"] is not None for line in lines)


@pytest.mark.parametrize(
    ("name", "settled"),
    [
        ("Plausible", "--window average --warm-up 0"),
        ("RHO", "--window average --warm-up 200"),
        ("OGRS", "--window 1 --warm-up 200"),
    ],
)
def test_train_settles_what_the_selector_wants(
    name: str, settled: str, few: Path, tmp_path: Path
) -> None:
    arguments = ["train", str(few), "--label", "digit", "--drop", "name", "--selector", name]
    arguments += ["--model", "mlp"]
    logs = []
    for number, more in enumerate(([], settled.split(), ["--window", "3", "--warm-up", "190"])):
        out = tmp_path / str(number)
        sizes = ["--slots", "205", "--k", "4", "--rows-per-slot", "1", "--out", str(out)]
        assert main([*arguments, *more, *sizes]) == 0
        lines = (out / "log.jsonl").read_text().splitlines()
        logs.append([json.loads(line)["loss"] for line in lines])
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_train_names_what_rho_needs(table: Path, tmp_path: Path, capsys) -> None:
    arguments = ["train", str(table), "--label", "digit", "--id", "name", "--selector", "RHO"]
    assert main([*arguments, "--window", "1", "--out", str(tmp_path / "run")]) == 2
    assert "--window average" in capsys.readouterr().err
