"""Exported models give the numbers of predict, or are not written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import tamis
from tamis.cli.main import main
from tamis.prediction import ModelExportError, export
from tamis.sources import read_schema
from tests.support.customers import customers, train

ROWS = customers(1000, seed=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("customers"), "--kind", "note=text")


def test_torch_export_gives_the_numbers_of_predict(run: Path, tmp_path: Path) -> None:
    predictor = tamis.load(run)
    assert {"number", "category", "datetime", "text"} <= {c.kind for c in predictor.schema.inputs}
    path = tmp_path / "sub" / "model.pt2"
    assert predictor.to_torch_export(path, ROWS) <= 1e-5
    extra = {"classes": "", "schema": ""}
    module = torch.export.load(path, extra_files=extra).module()
    found = module(predictor.encode(ROWS)).detach().numpy()
    assert np.abs(found - predictor.predict_proba(ROWS)).max() <= 1e-5
    assert json.loads(extra["classes"]) == ["no", "yes"]
    assert read_schema(path.with_suffix(".schema.json")) == predictor.schema
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.pt2", "model.schema.json"]


@pytest.mark.slow  # torch traces and translates the model for several seconds
def test_onnx_gives_the_numbers_of_predict(run: Path, tmp_path: Path) -> None:
    predictor = tamis.load(run / "model.safetensors")
    path = tmp_path / "model.onnx"
    assert predictor.to_onnx(path) <= 1e-5
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = predictor.schema.encode(ROWS)
    wanted = predictor.predict_proba(ROWS)
    for size in (1, 2, 1000):
        (found,) = session.run(None, {"rows": rows[:size]})
        assert np.abs(found - wanted[:size]).max() <= 1e-5
    kept = session.get_modelmeta().custom_metadata_map
    assert json.loads(kept["classes"]) == ["no", "yes"]
    assert json.loads(kept["schema"]) == json.loads(json.dumps(predictor.schema.to_json()))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_pictures_are_exported(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=20)
    np.savez(tmp_path / "images.npz", x=rng.random((20, 3, 8, 8)), y=labels)
    words = ["train", str(tmp_path / "images.npz"), "--label", "y", "--model", "resnet18"]
    out = tmp_path / "run"
    assert main([*words, "--slots", "2", "--k", "4", "--out", str(out)]) == 0
    model = tmp_path / "model.any"
    assert main(["export", str(out), "--format", form, "--out", str(model)]) == 0
    assert model.exists()


def test_the_command_compares_on_rows_of_the_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    compared = []
    real = export.example_rows

    def watched(predictor: tamis.Predictor, rows: torch.Tensor | None) -> torch.Tensor:
        compared.append(rows)
        return real(predictor, rows)

    monkeypatch.setattr(export, "example_rows", watched)
    assert main(["export", str(run), "--format", "torch"]) == 0
    printed = capsys.readouterr().out
    assert "model.pt2" in printed
    assert "model.schema.json" in printed
    (rows,) = compared
    held = tamis.load(run).encode(customers(300))
    assert len(rows) == 300
    assert {tuple(row) for row in rows.tolist()} == {tuple(row) for row in held.tolist()}


def test_other_numbers_are_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = export.torch_runner
    monkeypatch.setattr(export, "torch_runner", lambda path: lambda rows: runner(path)(rows) + 1e-4)
    with pytest.raises(ModelExportError, match=r"was not written.*differ.*by 1\.0e-04"):
        tamis.load(run).to_torch_export(tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_exported_is_one_sentence(run: Path, tmp_path: Path) -> None:
    class Branching(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(2, 2)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(rows[:, :2]) if rows.sum() > 0 else self.head(-rows[:, :2])

    predictor = tamis.Predictor(Branching(), tamis.load(run).schema, {})
    with pytest.raises(ModelExportError, match="The model cannot be exported: "):
        predictor.to_torch_export(tmp_path / "model.pt2")
