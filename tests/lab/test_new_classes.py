"""The experiment on classes that come up: its stream, its measures, its table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.lab.experiments.classes import lines
from tamis.lab.new_classes import Cell, Curve, Measured, Result, measure, play
from tamis.lab.rows import read
from tamis.streams import DataSet, digits


@pytest.fixture(scope="module")
def points() -> DataSet:
    """Four classes far apart."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 4
    inputs = 6 * torch.eye(4)[labels] + torch.randn(400, 4, generator=generator)
    return DataSet(inputs[:300], labels[:300], inputs[300:], labels[300:], ("a", "b", "c", "d"))


def test_new_classes_come_in_the_second_part_alone() -> None:
    cell = Cell(before=20, after=30)
    slots = list(play(digits(), cell))
    assert len(slots) == 50
    assert torch.cat([samples.labels for samples in slots[:20]]).max() == 7
    assert {8, 9} <= set(torch.cat([samples.labels for samples in slots[20:]]).tolist())
    assert torch.cat([samples.ids for samples in slots]).equal(torch.arange(500))


def test_both_models_learn_the_new_classes(points: DataSet) -> None:
    found = measure(points, Cell(clean=0.8, before=60, after=120))
    slots = found.grown.learned(), found.knew.learned()
    assert slots[0] is not None
    assert slots[1] is not None
    assert 0 < found.grown.named <= 10
    assert found.knew.named == 0, "it has nothing new"
    assert found.lost < 0.05
    assert found.fall < 0.05


def test_slots_are_those_of_the_first_test_that_passes() -> None:
    curve = Curve([5, 10, 15, 20], [0.1, 0.9, 0.8, 0.95], [1.0, 1.0, 0.9, 0.8])
    assert curve.learned() == 10
    assert Curve([5], [0.89], [1.0]).learned() is None
    other = Curve([5, 10, 15, 20], [0.0] * 4, [1.0, 1.0, 1.0, 1.0])
    assert Measured(curve, other, 0.0).lost == pytest.approx(0.075)


def test_the_command_writes_its_table_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "out"
    arguments = ["--before", "30", "--after", "10", "--seeds", "2", "--out", str(folder)]
    command = ["lab", "classes", "--data", "digits", *arguments, "--page", str(page)]
    assert main(command) == 0
    results = read(folder / "results.csv", Result)
    assert [result.seed for result in results] == [0, 1]
    assert {(result.grown, result.knew) for result in results} == {(0, 0)}, "ten slots are few"
    assert f"| digits | 0.7 | 2 | {max(r.named for r in results)} | - | - | - |" in page.read_text()
    assert main(command) == 0
    assert read(folder / "results.csv", Result) == results
    assert "runs" not in capsys.readouterr().out.rpartition("Results:")[0].rpartition("Results:")[2]


def test_means_are_over_seeds() -> None:
    results = [
        Result("digits", 0.7, seed=0, named=4, grown=90, knew=100, old_grown=0.9, lost=0.004),
        Result("digits", 0.7, seed=1, named=9, grown=110, knew=100, old_grown=0.8, lost=-0.002),
        Result("digits", 0.7, seed=2, named=2, grown=0, knew=100, old_grown=0.7, lost=0.001),
    ]
    (line,) = lines(results)
    assert line == "| digits | 0.7 | 3 | 9 | 100 | 100 | 1.00 | .800 | .000 | 0.10 |"


@pytest.mark.parametrize(
    "wrong", [["--clean", "0"], ["--seeds", "0"], ["--after", "0"], ["--after", "4"]]
)
def test_settings_that_make_no_sense_are_refused(wrong: list[str], tmp_path: Path) -> None:
    assert main(["lab", "classes", *wrong, "--out", str(tmp_path)]) == 2
