"""Prediction from a run's folder or a model's file: the same numbers, whatever the rows come as."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import torch
from torch import nn

import tamis
from tamis import Naive, Sliding, Trainer, TrainingRun, Validator
from tamis.checkpoint import DamagedFileError, read_model, save_model
from tamis.cli.main import main
from tamis.models import mlp
from tamis.prediction import ModelFileError
from tamis.runs import read_metadata
from tamis.sources import BadInputError
from tests.support.customers import NAMES, customers, train, write_csv

ROWS = customers(50, seed=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("customers"))


def test_it_predicts_what_the_run_reports(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_csv(tmp_path / "rows.csv", customers(200))
    test = write_csv(tmp_path / "test.csv", ROWS)
    words = ["train", str(table), "--label", "left", "--id", "name", "--test", str(test)]
    assert main([*words, "--slots", "40", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out.split("averaged weights ")[1].split(".\n")[0]
    predicted = tamis.load(tmp_path / "run").predict(test)
    accuracy = np.mean(predicted == [row["left"] for row in ROWS])
    assert f"{accuracy:.3f}" == printed


def test_the_file_alone_is_enough(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "any.safetensors"
    shutil.copy(run / "model.safetensors", alone)
    before = torch.get_rng_state()
    one, two = tamis.load(str(run)), tamis.load(alone)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.classes.tolist() == ["no", "yes"]
    assert one.schema == two.schema
    assert one.schema.label == "left"
    probabilities = one.predict_proba(ROWS)
    assert probabilities.shape == (50, 2)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(probabilities, two.predict_proba(ROWS))
    predicted = one.predict(ROWS)
    assert predicted.tolist() == [("no", "yes")[at] for at in probabilities.argmax(axis=1)]
    assert np.mean(predicted == [row["left"] for row in ROWS]) > 0.9
    assert one.about["weights"] == "averaged"


def test_rows_may_come_in_any_form(run: Path, tmp_path: Path) -> None:
    predictor = tamis.load(run)
    wanted = predictor.predict_proba(ROWS)
    backwards = NAMES[::-1]
    lines = "".join(
        json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in ROWS
    )
    (tmp_path / "rows.jsonl").write_text(lines)
    frame = pandas.DataFrame(ROWS, columns=backwards)
    frame.to_parquet(tmp_path / "rows.parquet")
    others = {
        "pandas": frame,
        "polars": polars.DataFrame(ROWS)[backwards],
        "columns": {name: [row[name] for row in ROWS] for name in backwards[1:]},
        "csv": write_csv(tmp_path / "rows.csv", ROWS, backwards),
        "parquet": str(tmp_path / "rows.parquet"),
        "jsonl": tmp_path / "rows.jsonl",
    }
    for name, table in others.items():
        assert np.array_equal(predictor.predict_proba(table), wanted), name
    assert predictor.predict(frame[:0]).shape == (0,)


def test_strange_values_are_no_fault_and_missing_columns_are_one(run: Path) -> None:
    predictor = tamis.load(run)
    odd = {"age": "n/a", "town": "Atlantis", "joined": None, "note": ""}
    assert predictor.predict([odd, odd | {"town": None, "age": float("nan")}]).shape == (2,)
    for unlike in (
        [{name: cell for name, cell in odd.items() if name != "town"} | {"city": "Rome"}],
        pandas.DataFrame([odd]).rename(columns={"town": "city"}),
    ):
        with pytest.raises(BadInputError, match=r"has no column 'town'; is it 'city' now\?"):
            predictor.predict(unlike)
    with pytest.raises(BadInputError, match="pass one record in a list"):
        predictor.predict(odd)
    frame = pandas.DataFrame(ROWS)
    for other, message in (
        (np.zeros((2, 4)), "no names of columns"),
        (frame.iloc[0], "not Series"),
        (frame.to_dict(), "Column 'name' is a mapping, not a list of cells"),
        (polars.DataFrame(ROWS).lazy(), r"pass frame\.collect\(\)"),
    ):
        with pytest.raises(BadInputError, match=message):
            predictor.predict(other)


def test_a_row_that_cannot_be_read_keeps_its_place(run: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "rows.csv", ROWS)
    lines = table.read_text().splitlines()
    lines.insert(4, "one,cell,too,many,in,this,row")
    lines[11] = lines[11].replace(",", ",old", 1)  # no number, and counts as missing
    table.write_text("\n".join(lines))
    predictor = tamis.load(run)
    (found,) = predictor.blocks(table)
    assert dict(found.reasons) == {3: "fields do not fit the header"}
    assert found.ids[3:5] == ["3", ROWS[3]["name"]]
    assert found.unreadable == {"age": [ROWS[9]["name"]]}
    predicted = predictor.predict(table)
    assert predicted[3] is None
    usual, other = predictor.predict(ROWS).tolist(), predicted.tolist()
    assert other[:3] + other[4:10] + other[11:] == usual[:9] + usual[10:]  # row 9 has no age now
    assert np.isnan(predictor.predict_proba(table)[3]).all()


def test_a_file_is_read_in_blocks(run: Path, tmp_path: Path) -> None:
    """A row far behind is not read before it is its turn: a file may be larger than memory."""
    table = write_csv(tmp_path / "rows.csv", 200 * ROWS)
    blocks = tamis.load(run).blocks(table)
    sizes = [len(next(blocks))]
    with table.open("r+") as file:
        file.truncate(table.stat().st_size // 2)
    sizes += map(len, blocks)
    assert sizes[:1] == [4096]
    assert 4800 < sum(sizes) < 5200


@pytest.mark.parametrize("model", [pytest.param("resnet18", marks=pytest.mark.slow), "mlp"])
def test_arrays(model: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=20)
    images = (rng.random((20, 8, 8)) + 3 * labels[:, None, None] * np.eye(8)).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=images, y=labels)
    words = ["train", str(tmp_path / "images.npz"), "--label", "y", "--model", model]
    assert main([*words, "--slots", "2", "--k", "4", "--out", str(tmp_path / "run")]) == 0
    predictor = tamis.load(tmp_path / "run" / "model.safetensors")
    assert predictor.schema.input_shape == (8, 8)
    wanted = predictor.predict_proba(tmp_path / "images.npz")
    for table in (images, torch.from_numpy(images), {"x": images}, [{"x": one} for one in images]):
        assert np.allclose(predictor.predict_proba(table), wanted, atol=1e-6)
    assert set(predictor.predict(images).tolist()) <= {0, 1}
    images[3, 0, 0] = np.nan
    odd = [{"x": one} for one in images] + [{"x": images[0, :2]}]
    predicted = predictor.predict(odd)
    assert [at for at, name in enumerate(predicted) if name is None] == [3, 20]
    (found,) = predictor.blocks(odd)
    assert found.reasons[3] == "inputs not finite"
    assert found.reasons[20].startswith("x is not of kind array, as in training: [[")
    assert not found.unreadable


def test_a_stream(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in customers(120))
    (tmp_path / "rows.jsonl").write_text(lines)
    words = ["stream", str(tmp_path / "rows.jsonl"), "--label", "left", "--id", "name"]
    words += ["--classes", "yes", "no", "--slots", "10", "--rows-per-slot", "10"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    predictor = tamis.load(tmp_path / "run")
    assert predictor.classes.tolist() == ["yes", "no"]
    predicted = predictor.predict(pandas.DataFrame(ROWS))
    assert set(predicted) <= {"yes", "no"}
    assert "'lr': 0.002" in read_metadata(tmp_path / "run").settings["optimizer"]


def test_code_of_a_file_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "from tamis.models import mlp\ndef build(shape, classes):\n    return mlp(shape, classes)\n"
    )
    (tmp_path / "mynet.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rows.csv", customers(60), ["age", "left"])
    words = ["train", "rows.csv", "--label", "left", "--model", "mynet:build", "--slots", "10"]
    assert main([*words, "--out", "run"]) == 0
    sys.modules.pop("mynet")
    with pytest.raises(ModelFileError, match=r"mynet:build, code of your own.*pass it as `model`"):
        tamis.load("run")
    assert "mynet" not in sys.modules
    predictor = tamis.load("run", model=mlp)
    assert set(predictor.predict(ROWS)) <= {"yes", "no"}
    own = mlp(predictor.schema.input_shape, 2)
    before = own.state_dict()
    same = tamis.load("run", model=own)
    assert np.array_equal(same.predict_proba(ROWS), predictor.predict_proba(ROWS))
    assert all(torch.equal(before[name], part) for name, part in own.state_dict().items())
    assert all(part.requires_grad for part in own.parameters())
    with pytest.raises(ModelFileError, match="weights are of another model"):
        tamis.load("run", model=nn.Linear(3, 3))


def test_a_run_of_a_program_takes_arrays(tmp_path: Path) -> None:
    model = mlp((2,), 2)
    inputs, labels = torch.randn(40, 2), torch.randint(2, (40,))
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), 0.1), Naive(), Sliding(40), k=4,
        validator=Validator(("ant", "bee")),
    )  # fmt: skip
    names = [("ant", "bee")[number] for number in labels.tolist()]
    with TrainingRun(tmp_path / "run", trainer) as run:
        for _ in run.train([(inputs, labels), (inputs, names)]):
            pass
    with pytest.raises(ModelFileError, match="does not name its model"):
        tamis.load(tmp_path / "run")
    for given in (mlp, mlp((2,), 2)):
        predictor = tamis.load(tmp_path / "run", model=given)
        wanted = trainer.averaged.probabilities(inputs)
        assert np.allclose(predictor.predict_proba(inputs.double()), wanted, atol=1e-6)
        assert set(predictor.predict(inputs.numpy())) <= {"ant", "bee"}
    with pytest.raises(BadInputError, match=r"no rows of shape \(2,\)"):
        predictor.predict_proba(np.zeros((3, 5)))


def test_damage_gets_a_sentence(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"has no model\.safetensors"):
        tamis.load(tmp_path)
    (tmp_path / "x.safetensors").write_bytes(b"gone")
    with pytest.raises(DamagedFileError, match="not a readable model file"):
        tamis.load(tmp_path / "x.safetensors")
    model, (_, about) = tamis.load(run).model, read_model(run / "model.safetensors")
    for other in (
        {},
        {"schema": None, "classes": []},
        {"schema": {"version": 9}},
        {"arguments": {"width": 10**9}},
        {"arguments": {"colour": 1}},
        {"model": "mlp"},
        {"model": None},
    ):
        save_model(model, tmp_path / "y.safetensors", about | other if other else {})
        with pytest.raises(tamis.TamisError):
            tamis.load(tmp_path / "y.safetensors")
