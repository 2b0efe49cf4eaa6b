"""The paper's table: one setting for all cells, its rows, and what a run leaves behind."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Generator

from tamis.lab.ogrs_variants import printed
from tamis.lab.rows import as_row, from_row, key
from tamis.lab.scene import PLACES, Scene
from tamis.lab.table import (
    CLEAN_RATIOS,
    PAPER,
    WHY,
    Line,
    Printed,
    Run,
    Settings,
    by_run,
    methods,
    run_table,
    runs,
)
from tamis.models import mlp
from tamis.selectors import OGRS, Naive
from tamis.streams import digits

SMALL = Settings(slots=60, warm_up=10, every=20)


def run_of(method: str, seed: int = 0) -> Run:
    return Run("table", "digits", "", 0.7, method, seed)


def test_cifar10_is_the_boards_place_but_for_its_slots() -> None:
    assert Settings().place("cifar10") == replace(PLACES["cifar10-resnet"], slots=10_000)


def test_mnist_differs_in_model_augmentation_and_precision_alone() -> None:
    grey, colour = Settings().place("mnist"), Settings().place("cifar10")
    assert (grey.model, grey.augment, grey.precision) == (mlp, None, None)
    same = {"load": None, "model": mlp, "augment": None, "precision": None}
    assert replace(grey, **same) == replace(colour, **same)


def test_every_setting_has_a_reason_and_ogrs_is_the_default() -> None:
    assert {field.name for field in fields(Settings)} - {"is_quick"} == set(WHY)
    assert Settings().ogrs == OGRS()
    assert not Settings().is_quick
    assert Settings.quick().slots < Settings().slots
    assert Settings.quick().place("cifar10").model is mlp


def test_the_papers_numbers_stand_for_rows_and_clean_ratios_of_ours() -> None:
    assert [len(row) for row in PAPER["mnist"].values()] == [len(CLEAN_RATIOS)] * 7
    assert [len(row) for row in PAPER["cifar10"].values()] == [3] * 7
    assert PAPER["mnist"].keys() == PAPER["cifar10"].keys() <= methods(SMALL).keys()


def test_runs_are_all_distinct_and_seeds_come_last() -> None:
    names = list(methods(SMALL))
    listed = runs(SMALL, ["mnist", "cifar10"], CLEAN_RATIOS, names, range(2))
    assert len({key(run, Run) for run in listed}) == len(listed) == 2 * 2 * 4 * 11
    assert [run.seed for run in listed] == [0] * 88 + [1] * 88
    assert {run.experiment for run in listed} == {"table"}
    quick = runs(Settings.quick(), ["mnist"], [0.9], ["naive"], range(1))
    assert quick[0].experiment == "quick table"


@pytest.mark.parametrize(("k", "candidates"), [(1, 4), (8, 64), (32, 256)])
def test_the_walk_on_the_host_picks_what_the_papers_rule_picks(k: int, candidates: int) -> None:
    scene = Scene(replace(SMALL, k=k).place("digits"), digits(), "symmetric", 0.5, 60, 0)
    trainer = scene.trainer(Naive())
    trainer.step(next(scene.stream()))
    for _ in range(20):
        trainer.step()
    pool, rule = trainer.buffer.pool(), printed(candidates=candidates)
    for seed in range(3):
        ours = Printed(candidates).select(pool, trainer.view, k, Generator().manual_seed(seed))
        theirs = rule.select(pool, trainer.view, k, Generator().manual_seed(seed))
        assert torch.equal(ours.rows, theirs.rows)


@pytest.mark.parametrize("method", methods(SMALL))
def test_every_row_runs_and_leaves_a_curve(method: str) -> None:
    lines = run_table(run_of(method), SMALL)
    assert [line.slot for line in lines] == [20, 40, 60]
    for line in lines:
        assert all(0 < share <= 1 for share in (line.accuracy, line.accuracy_ema, line.coverage))
        assert line.clean_ratio_true == pytest.approx(0.7, abs=0.05)
        assert math.isnan(line.clean_ratio_estimated) == (method != "Plausible")
        assert line.milliseconds > 0
    assert lines[0].coverage < lines[-1].coverage
    assert key(lines[0], Run) == key(run_of(method), Run)
    assert as_row(from_row(Line, as_row(lines[-1]))) == as_row(lines[-1])


def test_purity_is_that_of_the_slots_since_the_last_line() -> None:
    first, *later = run_table(run_of("oracle"), SMALL)
    assert first.purity == pytest.approx((10 * 0.7 + 10) / 20, abs=0.1)  # the warm-up is naive
    assert [line.purity for line in later] == [1, 1]


def test_a_line_in_the_middle_is_the_end_of_a_shorter_run() -> None:
    unbroken = run_table(run_of("OGRS"), SMALL)
    short = run_table(run_of("OGRS"), replace(SMALL, slots=40, every=40))
    assert as_row(replace(short[-1], milliseconds=0, purity=0)) == as_row(
        replace(unbroken[1], milliseconds=0, purity=0)
    )
    other = run_table(run_of("OGRS", seed=1), SMALL)
    assert other[-1].accuracy != unbroken[-1].accuracy


def test_of_a_run_that_is_there_twice_the_later_counts() -> None:
    old = [
        Line("table", "digits", "", 0.7, "naive", 0, slot, 0.1, 0.1, 1, 1, 0.7, math.nan, 1, "")
        for slot in (20, 40, 60)
    ]
    new = [replace(line, accuracy=0.9) for line in old]
    other = [replace(line, seed=1) for line in old[:1]]
    found = by_run([*old, *other, *new])
    assert [line.accuracy for line in found[key(old[0], Run)]] == [0.9] * 3
    assert len(found[key(other[0], Run)]) == 1
