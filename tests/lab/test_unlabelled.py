"""The experiment on missing labels: its streams, its table, and that a stopped one continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.data import UNLABELLED
from tamis.lab import unlabelled
from tamis.lab.experiments.unlabelled import lines
from tamis.lab.rows import read
from tamis.lab.scene import Scene
from tamis.lab.unlabelled import ALL, PLACES_ONCE, Cell, Result, cells, run_cell, stream_of, table


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    place = replace(PLACES_ONCE["digits"](), slots=40)
    monkeypatch.setitem(unlabelled.PLACES_ONCE, "digits", lambda: place)


def test_every_stream_has_an_arm_with_all_labels() -> None:
    found = cells(Cell("digits"), [("symmetric", 0.7), ("pair", 0.6)], [0.5, 0.1], seeds=2)
    assert len(found) == len(set(found)) == 2 * 2 * 5
    assert [cell.labelled for cell in found if cell.arm == ALL] == [1.0] * 4


@pytest.mark.parametrize("labelled", [1.0, 0.3])
def test_a_share_of_the_rows_has_its_label(labelled: float) -> None:
    place = PLACES_ONCE["digits"]()
    scene = Scene(place, place.load(None), "symmetric", 0.7, place.slots, seed=1)
    slots = list(stream_of(scene, labelled))
    labels, truth, clean = (
        torch.cat([getattr(slot, name) for slot in slots]) for name in ("labels", "groups", "clean")
    )
    known = labels != UNLABELLED
    assert known.float().mean() == pytest.approx(labelled, abs=0.05)
    assert (labels == truth)[known].equal(clean[known])


def test_a_made_table_is_numbers_that_a_perceptron_takes() -> None:
    data = table()
    assert len(data.inputs) == 15_000
    assert data.inputs.isfinite().all()
    assert data.inputs.abs().mean() < 5
    assert data.test_inputs.shape[1:] == data.inputs.shape[1:]
    assert set(data.labels.tolist()) == {0, 1, 2, 3}


@pytest.mark.usefixtures("_short")
def test_before_guesses_are_trusted_both_arms_are_the_same() -> None:
    left_out, used = (run_cell(Cell("digits", arm=arm)) for arm in ("left out", "used"))
    assert replace(used, arm="left out") == left_out
    assert used.guessed == 0


@pytest.mark.usefixtures("_short")
def test_guesses_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tamis.selectors.plausible.calibration.Calibration.lasting_trust", torch.ones(())
    )
    result = run_cell(Cell("digits"))
    assert result.guessed > 20
    assert 0.2 < result.right <= 1.0


@pytest.mark.usefixtures("_short")
def test_the_command_writes_its_table_and_continues(tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out"
    few = ["--data", "digits", "--symmetric", "0.7", "--pair", "--labelled", "0.5", "--seeds", "1"]
    arguments = ["lab", "unlabelled", *few, "--out", str(out), "--page", str(page)]
    assert main(arguments) == 0
    assert "| digits, symmetric | 0.7 | 0.5 |" in page.read_text()
    results = read(out / "results.csv", Result)
    assert [result.arm for result in results] == [ALL, "left out", "used"]
    assert main(arguments) == 0
    assert read(out / "results.csv", Result) == results


def test_a_line_has_means_over_seeds_and_the_arm_with_all_labels() -> None:
    def result(arm: str, labelled: float, seed: int, accuracy: float, guessed: int = 0) -> Result:
        cell = Cell("digits", labelled=labelled, arm=arm, seed=seed)
        return Result(**vars(cell), accuracy_ema=accuracy, guessed=guessed, right=guessed / 100)

    results = [
        result(ALL, 1.0, 0, 0.9), result(ALL, 1.0, 1, 0.92),
        result("left out", 0.5, 0, 0.8), result("left out", 0.5, 1, 0.81),
        result("used", 0.5, 0, 0.85, 50), result("used", 0.5, 1, 0.86),
    ]  # fmt: skip
    line = "| digits, symmetric | 0.7 | 0.5 | .9100 | .8050 | .8550 |"
    assert lines(results) == [f"{line} 50% |"]  # a run without guesses has none that are wrong
    without = [replace(result, guessed=0) for result in results]
    assert lines(without) == [f"{line} - |"]


@pytest.mark.parametrize("wrong", [["--labelled", "0"], ["--pair", "1.5"], ["--seeds", "0"]])
def test_settings_that_make_no_sense_are_refused(wrong: list[str], tmp_path: Path) -> None:
    assert main(["lab", "unlabelled", *wrong, "--out", str(tmp_path)]) == 2
