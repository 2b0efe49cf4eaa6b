"""The audit: its cells run, resume, and its script's ITLM is upside down."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path

import pytest
from torch import Generator, nn

from tamis.data import Samples
from tamis.lab import audit
from tamis.lab.audit import Cell, ReleasedITLM, cells, key, run_cell
from tamis.lab.experiments import audit as command
from tamis.model_view import ModelView
from tamis.selectors import OGRS, Naive


@pytest.mark.parametrize("part", ["settings", "ablation", "bars", "price"])
def test_cells_are_distinct(part: str) -> None:
    keys = [key(cell) for cell in cells(part)]
    if part == "ablation":  # cells with another window or k have names of their own
        assert len({cell.name for cell in cells(part)}) == len(keys) / 2
    assert len(set(keys)) == len(keys)


def test_a_cell_runs_the_same_twice() -> None:
    cell = Cell("bars", "OGRS", OGRS(), "gaussians", 0.6, 120, k=8)
    first, again = run_cell(cell), run_cell(cell)
    assert (first.accuracy, first.purity) == (again.accuracy, again.purity)
    assert 0 < first.stayed < 1
    assert first.distinct > 0.5
    assert run_cell(Cell("bars", "naive", Naive(), "digits", 0.6, 30)).purity > 0.4


def test_the_scripts_itlm_keeps_what_itlm_throws_away(
    blobs: Samples, blob_model: nn.Module
) -> None:
    generator = Generator().manual_seed(0)
    rows = ReleasedITLM(0.5).select(blobs, ModelView(blob_model), 50, generator).rows
    assert blobs.clean[rows].float().mean() < 0.6
    losses = ModelView(blob_model).losses(blobs.inputs, blobs.labels)
    assert losses[rows].min() >= losses.median() - 1e-6


@pytest.mark.slow
def test_the_command_goes_on_where_it_stopped(tmp_path: Path, monkeypatch, capsys) -> None:
    few = [Cell("price", f"run {n}", OGRS(), "gaussians", 0.6, 40, k=4, seed=n) for n in range(2)]
    monkeypatch.setattr(audit, "price", lambda: iter(few[:1]))
    options = Namespace(part="price", out=tmp_path, data_folder=None, jobs=1)
    assert command.run(options) == 0
    first = (tmp_path / "price.csv").read_text()
    monkeypatch.setattr(audit, "price", lambda: iter(few))
    assert command.run(options) == 0
    both = (tmp_path / "price.csv").read_text()
    assert both.startswith(first)
    assert [row["name"] for row in csv.DictReader(both.splitlines())] == ["run 0", "run 1"]
    assert "run 1" in capsys.readouterr().out
