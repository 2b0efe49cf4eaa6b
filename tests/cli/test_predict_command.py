"""tamis predict: a line for every row, and scores where there are labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas
import pytest

import tamis
from tamis.cli.main import main
from tests.support.customers import NAMES, customers, train, write_csv

ROWS = customers(40, seed=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("customers"))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_has_a_line(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = write_csv(tmp_path / "new.csv", ROWS)
    lines = table.read_text().splitlines()
    lines.insert(6, "a,b")
    lines[9] = lines[9].replace(",", ",old", 1)
    lines[12] = lines[12].rpartition(",")[0] + ",perhaps"
    table.write_text("\n".join(lines))
    assert main(["predict", str(run), "new.csv"]) == 0
    found = read(tmp_path / "new-predictions.csv")
    assert list(found[0]) == ["name", "prediction", "probability", "reason"]
    names = [row["name"] for row in ROWS]
    assert [line["name"] for line in found] == [*names[:5], "5", *names[5:]]
    assert (found[5]["prediction"], found[5]["probability"]) == ("", "")
    assert found[5]["reason"] == "fields do not fit the header"
    del found[5]
    wanted = tamis.load(run).predict_proba(read_frame(table, skip=6))
    for line, row in zip(found, wanted, strict=True):
        assert line["reason"] == ""
        assert line["prediction"] == ("no", "yes")[row.argmax()]
        assert abs(float(line["probability"]) - row.max()) < 1e-6
    printed = " ".join(capsys.readouterr().out.split())
    assert "41 rows, 40 predictions: new-predictions.csv" in printed
    assert "1 without a prediction: fields do not fit the header (rows 5)" in printed
    assert (
        f"1 cells of 'age' are not of kind number, and count as missing (rows {names[7]})"
        in printed
    )
    assert "2 rows have no label, or one that is not a class here" in printed
    right = sum(line["prediction"] == row["left"] for line, row in zip(found, ROWS, strict=True))
    right -= found[10]["prediction"] == ROWS[10]["left"]
    assert f"Accuracy {right / 39:.3f} on 39 labelled rows" in printed
    assert "precision recall" in printed
    assert f"tamis.load('{run}').predict(frame)" in printed


def read_frame(path: Path, skip: int) -> pandas.DataFrame:
    return pandas.read_csv(path, skiprows=[skip], keep_default_na=False)


def test_precision_and_recall_are_by_class(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_csv(tmp_path / "new.csv", [row | {"left": "yes"} for row in ROWS])
    out = tmp_path / "out.jsonl"
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 0
    found = [json.loads(line)["prediction"] for line in out.read_text().splitlines()]
    share = found.count("yes") / len(found)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["yes", "40", "1.000", f"{share:.3f}"] in lines
    assert ["no", "0", "0.000"] in lines


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_all_probabilities_in_every_format(ending: str, run: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "new.csv", ROWS, NAMES[1:-1])
    out = tmp_path / "sub" / f"out.{ending}"
    assert main(["predict", str(run), str(table), "--out", str(out), "--proba"]) == 0
    read_by = {
        "csv": pandas.read_csv,
        "parquet": pandas.read_parquet,
        "jsonl": lambda path: pandas.read_json(path, lines=True),
    }
    found = read_by[ending](out)
    assert list(found) == ["row", "prediction", "probability", "p_no", "p_yes", "reason"]
    assert found["row"].astype(int).tolist() == list(range(40))
    wanted = tamis.load(run).predict_proba(table)
    assert abs(found[["p_no", "p_yes"]].to_numpy() - wanted).max() < 1e-6
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_mistakes_cost_a_line_and_no_file(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_csv(tmp_path / "new.csv", ROWS)
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(table.read_text().replace("town", "city", 1))
    for words, message in (
        ([renamed], "renamed.csv has no column 'town'; is it 'city' now?"),
        ([tmp_path / "gone.csv"], "No such file"),
        ([table, "--out", "x.xlsx"], "ends in none of .csv, .jsonl, .parquet"),
        ([table, "--out", str(table)], "is the file itself"),
        ([table, "--device", "nowhere"], "nowhere"),
        ([table, "--model", "no_such:build"], "cannot be imported"),
    ):
        assert main(["predict", str(run), *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert main(["predict", str(tmp_path), str(table)]) == 2
    assert "has no model.safetensors" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "renamed.csv"]


def test_cells_are_no_formulas_and_numbers_stay(run: Path, tmp_path: Path) -> None:
    names = ["=1+1", "-7", "@x", "plain"]
    table = [row | {"name": name} for name, row in zip(names, ROWS, strict=False)]
    out = tmp_path / "out.csv"
    assert (
        main(["predict", str(run), str(write_csv(tmp_path / "new.csv", table)), "--out", str(out)])
        == 0
    )
    assert [line["name"] for line in read(out)] == ["'=1+1", "-7", "'@x", "plain"]


def test_progress_is_printed_when_it_takes_long(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tamis.monitoring.progress.QUIET", 0.0)
    table = write_csv(tmp_path / "new.csv", ROWS)
    assert main(["predict", str(run), str(table), "--out", str(tmp_path / "out.csv")]) == 0
    assert "new.csv: 40 rows\n" in capsys.readouterr().out
