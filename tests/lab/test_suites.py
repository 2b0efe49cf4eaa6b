"""The suites of the board: named cells, the places that they need, and runs of a few."""

from __future__ import annotations

import math
from argparse import ArgumentParser
from dataclasses import replace

import pytest
import torch

from tamis.cli.main import main
from tamis.lab import board
from tamis.lab.board import BandCheck, Cell, cells_at, run_cell
from tamis.lab.builders import selecting
from tamis.lab.commands.bench import add_arguments
from tamis.lab.methods import Method
from tamis.lab.noise_kinds import NOISES, SCATTERED, hit_classes, strangers
from tamis.lab.rows import key
from tamis.lab.scene import PLACES, Place, Scene
from tamis.lab.suites import SUITES, TEN_CLASSES, Spot
from tamis.lab.table_sets import made_table
from tamis.selectors import Naive
from tamis.streams import DataSet, digits

SPOTS = SUITES["structure"]
HERE = {spot for spot in SPOTS if spot.data.split("-")[0] in ("digits", "gaussians")}


def wide(rows: int = 20_000, classes: int = 10) -> DataSet:
    """A stand-in for data that is downloaded."""
    labels = torch.arange(rows) % classes
    inputs = torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))
    return DataSet(inputs, labels, inputs[:100], labels[:100], tuple("0123456789")[:classes])


def scene_of(spot: Spot, seed: int = 0) -> Scene:
    place = PLACES[spot.data]
    own = spot.data.split("-")[0] in ("digits", "gaussians", "made")
    return Scene(place, place.load(None) if own else wide(), *spot[1:], place.slots, seed)


def test_cells_are_named_once_and_have_keys_of_their_own() -> None:
    listed = cells_at(SPOTS, ["naive", "oracle"], seeds=2)
    assert len({key(cell, Cell) for cell in listed}) == len(listed) == 4 * len(SPOTS)
    assert len({str(spot) for spot in SPOTS}) == len(SPOTS)
    for name in (*TEN_CLASSES, "gaussians"):
        assert sum(spot.data.startswith(name) for spot in SPOTS) >= 10


@pytest.mark.parametrize("spot", SPOTS, ids=str)
def test_every_cell_has_the_clean_ratio_that_it_names(spot: Spot) -> None:
    scene = scene_of(spot)
    arrived = list(scene.stream())
    if scene.place.falls:
        arrived = arrived[-len(arrived) // 20 :]
    clean = torch.cat([samples.clean for samples in arrived]).float()
    expected = spot.clean_ratio + (0.025 * (0.9 - spot.clean_ratio) if scene.place.falls else 0)
    error = math.sqrt(expected * (1 - expected) / len(clean))
    assert clean.mean().item() == pytest.approx(expected, abs=4 * error + 0.01)


@pytest.mark.parametrize("spot", sorted(HERE), ids=str)
def test_the_confusion_is_the_true_one(spot: Spot) -> None:
    if PLACES[spot.data].falls:
        pytest.skip("methods know the ratio that it falls to")
    scene = scene_of(spot)
    confusion = scene.confusion()
    assert confusion.sum(dim=1).tolist() == pytest.approx([1] * scene.classes, abs=1e-5)
    counts = torch.bincount(scene.data.labels[scene.held], minlength=scene.classes).float()
    right = (counts @ confusion.diagonal() / counts.sum()).item()
    assert right == pytest.approx(1 if spot.noise == "open-set" else spot.clean_ratio, abs=0.06)


def test_a_confusion_that_is_counted_is_that_of_the_noise() -> None:
    place = Place(lambda folder: wide(), slots=10, held=15_000)
    confusion = Scene(place, wide(), "class-local-next", 0.88, 10, 0).confusion()
    hit = hit_classes(10)
    assert hit == (0, 3, 6)
    expected = torch.eye(10)
    for number in hit:
        expected[number, number], expected[number, number + 1] = 0.6, 0.4
    assert torch.allclose(confusion, expected, atol=0.06)


@pytest.mark.parametrize("tail", [20, 100, 1000])
def test_a_long_tail_is_geometric(tail: int) -> None:
    scene = scene_of(Spot(f"mnist-tail-{tail}", "symmetric", 0.7))
    held = torch.bincount(scene.data.labels[scene.held], minlength=10).tolist()
    naive = [max(1, held[0] * tail ** (-number / 9)) for number in range(10)]
    assert held == pytest.approx(naive, abs=1)
    assert held[9] >= 1
    assert sum(held) <= 5000 + 10
    assert list(scene.rare) == [7, 8, 9]
    assert not set(scene.held.tolist()) & set(scene.others.tolist())
    others = torch.bincount(scene.data.labels[scene.others], minlength=10)
    assert others[0] > 5 * others[9]


@pytest.mark.parametrize("name", [name for name in PLACES if "-few-" in name])
def test_few_rows_are_used_so_often(name: str) -> None:
    scene, uses = scene_of(Spot(name, "symmetric", 0.5)), int(name.split("-")[-1])
    assert scene.slots * scene.place.k / len(scene.held) == pytest.approx(uses, rel=0.02)


def test_a_ratio_that_falls_does_so_in_a_line() -> None:
    scene = scene_of(Spot("mnist-fall", "symmetric", 0.3))
    assert [scene.schedule()(time) for time in (0, 0.5, 1)] == pytest.approx([0.9, 0.6, 0.3])
    assert (scene.place.kept, scene.place.once) == (2000, True)


def test_strangers_have_values_of_the_data_but_are_none_of_it() -> None:
    images = digits().inputs
    mixed = strangers(images)
    assert mixed.shape == images.shape
    assert torch.equal(mixed.flatten().sort().values, images.flatten().sort().values)
    rows = made_table().inputs
    columns = strangers(rows)
    assert len(columns) == min(len(rows), 5000)
    known = {tuple(row) for row in rows.tolist()}
    assert not known & {tuple(row) for row in columns[:200].tolist()}


def test_the_made_table_has_as_many_rows_of_each_class() -> None:
    data = made_table()
    for labels in (data.labels, data.test_labels):
        counts = torch.bincount(labels, minlength=10)
        assert (counts == counts[0]).all()
    assert data.inputs.isfinite().all()
    assert len(data.labels) >= 3000


@pytest.mark.parametrize(
    "spot",
    [
        Spot("digits", "boundary", 0.7),
        Spot("digits", "open-set", 0.7),
        Spot("gaussians-fall", "symmetric", 0.6),
        Spot("made-table", "class-local", 0.82),
    ],
    ids=str,
)
def test_a_few_cells_run(spot: Spot) -> None:
    assert spot in SPOTS
    one, oracle = (run_cell(Cell(method, *spot, 24, 0)) for method in ("Plausible", "oracle"))
    assert oracle.purity == 1
    for run in (one, oracle):
        assert 0 < run.accuracy <= 1
        assert run.clean_ratio_true == pytest.approx(spot.clean_ratio, abs=0.2)
        assert math.isnan(run.rare_recall)


def test_methods_that_need_the_noise_itself_run_where_it_has_structure() -> None:
    for method in ("forward, known", "RHO, holdout", "Decoupling", "PuriDivER"):
        run = run_cell(Cell(method, "digits", "class-local", 0.82, 24, 0))
        assert 0.7 < run.clean_ratio_true < 0.95


def test_recall_of_rare_classes_is_that_of_the_last_third() -> None:
    run = run_cell(Cell("oracle", "digits-tail-20", "symmetric", 0.7, 200, 0))
    assert 0 <= run.rare_recall < run.accuracy_ema


class Sized(Naive):
    """Has a band around the clean ratio from its second slot on."""

    def clean_ratio_band(self) -> tuple[float, float] | None:
        return BANDS.pop(0) if BANDS else (0.6, 0.8)


BANDS: list[tuple[float, float] | None] = []


def test_the_band_of_a_selector_is_compared_with_the_truth(monkeypatch) -> None:
    BANDS[:] = [None, (0.0, 0.1), (0.5, 0.9)]
    sized = Method("sized", selecting(lambda _: Sized()), "none")
    monkeypatch.setattr(board, "METHODS", (sized,))
    run = run_cell(Cell("sized", "digits", "symmetric", 0.7, 40, 0))
    assert run.inside == pytest.approx(2 / 3)  # four looks: one without a band, one that missed
    assert (run.clean_ratio_low, run.clean_ratio_high) == (0.6, 0.8)
    assert 0.65 < run.clean_ratio_true < 0.75
    assert math.isnan(BandCheck().share)


def test_the_list_of_a_suite_names_its_cells(capsys) -> None:
    assert main(["lab", "bench", "--suite", "structure", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(spot) for spot in SPOTS]
    flags = "--list --data digits --noise symmetric --clean 0.7"
    assert main(["lab", "bench", "--suite", "structure", *flags.split(" ")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "digits, symmetric, 0.7",
        "digits-tail-20, symmetric, 0.7",
        "digits-tail-100, symmetric, 0.7",
    ]


def test_a_suite_runs_and_refuses_cells_that_it_does_not_have(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = "--suite structure --data gaussians --noise boundary,annotators --seeds 1 --slots 8"
    more = ["--methods", "naive", "--jobs", "1"]
    assert main(["lab", "bench", *flags.split(), *more]) == 0
    printed = capsys.readouterr().out
    assert "| gaussians | boundary |" in printed
    assert "| gaussians | annotators |" in printed
    assert main(["lab", "bench", *flags.split(), "--clean", "0.123"]) == 2
    assert "has no such cell" in capsys.readouterr().err


def test_the_command_offers_the_suites_that_there_are() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    (suite,) = (action for action in parser._actions if action.dest == "suite")
    assert tuple(suite.choices) == ("board", *SUITES)


def test_the_board_keeps_its_kinds_of_noise() -> None:
    assert SCATTERED == tuple(NOISES)[:2] == ("symmetric", "pair")
    assert replace(PLACES["mnist"], tail=None) == PLACES["mnist"]


def test_an_audit_is_answered_by_the_ledger() -> None:
    cell = Cell("Plausible, 100 audited", "digits", "boundary", 0.7, 60, 0)
    alone = run_cell(Cell("Plausible", "digits", "boundary", 0.7, 60, 0))
    audited = run_cell(cell)
    widths = [r.clean_ratio_high - r.clean_ratio_low for r in (audited, alone)]
    assert widths[0] < widths[1] / 2
    assert abs(audited.clean_ratio_estimated - audited.clean_ratio_true) < 0.1
