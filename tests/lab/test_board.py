"""The board's cells: listed, run, billed and read back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator

from tamis.data import Picks, Samples
from tamis.lab import board
from tamis.lab.board import Cell, Result, cells, run_cell
from tamis.lab.builders import selecting
from tamis.lab.methods import METHODS, Method
from tamis.lab.rows import as_row, key
from tamis.lab.scene import PLACES, Scene
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw
from tamis.streams import digits

SLOTS, WARM_UP, K = 40, 10, PLACES["digits"].k
DIGITS_HELD = 1347 * 3 // 4


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    names = ("naive", "OGRS", "ITLM", "ELR", "forward, running", "Decoupling")
    return {name: run_cell(Cell(name, "digits", "symmetric", 0.7, SLOTS, 0)) for name in names}


def test_every_combination_is_a_cell_of_its_own_and_seeds_come_last() -> None:
    listed = cells(
        ["naive", "OGRS"], ["digits", "mnist"], ["symmetric", "pair"], [0.9, 0.5], 3, 100
    )
    assert len(listed) == len({key(cell, Cell) for cell in listed}) == 2 * 2 * 2 * 2 * 3
    assert [cell.seed for cell in listed] == [0] * 16 + [1] * 16 + [2] * 16
    assert {cell.slots for cell in listed} == {100}
    assert {cell.slots for cell in cells(["naive"], ["digits", "mnist"], ["pair"], [0.9], 1)} == {
        300, 1500,
    }  # fmt: skip


def test_where_the_ratio_drifts_two_take_turns_and_the_newest_rows_are_kept() -> None:
    place = replace(PLACES["mnist-drift"], load=digits, slots=40, held=800, kept=100)
    scene = Scene(place, digits(), "symmetric", 0.3, 40, 0)
    arrived = list(scene.stream())
    assert [len(samples) for samples in arrived] == [20] * 40
    shares = [
        torch.cat([samples.clean for samples in arrived[first : first + 10]]).float().mean().item()
        for first in range(0, 40, 10)
    ]
    assert shares == pytest.approx([0.9, 0.3, 0.9, 0.3], abs=0.1)
    trainer = scene.trainer()
    for samples in arrived:
        trainer.step(samples)
    assert sorted(trainer.buffer.pool().ids.tolist()) == list(range(700, 800))


def test_methods_have_names_of_their_own() -> None:
    assert len({method.name.lower() for method in METHODS}) == len(METHODS)
    assert {"naive", "oracle", "OGRS"} <= {method.name for method in METHODS}


def test_a_cell_and_its_result_have_one_key(runs: dict[str, Result]) -> None:
    assert key(runs["OGRS"], Cell) == key(Cell("OGRS", "digits", "symmetric", 0.7, SLOTS, 0), Cell)


def test_the_same_cell_comes_to_the_same(runs: dict[str, Result]) -> None:
    again = run_cell(Cell("OGRS", "digits", "symmetric", 0.7, SLOTS, 0))
    assert as_row(replace(again, milliseconds=0)) == as_row(replace(runs["OGRS"], milliseconds=0))
    other = run_cell(Cell("OGRS", "digits", "symmetric", 0.7, SLOTS, 1))
    assert other.accuracy != again.accuracy


def test_naive_passes_each_row_once(runs: dict[str, Result]) -> None:
    assert (runs["naive"].forward, runs["naive"].backward) == (1, 1)


@pytest.mark.parametrize(("method", "rows"), [("OGRS", 128), ("ITLM", DIGITS_HELD), ("ELR", 2 * K)])
def test_a_selector_is_billed_for_the_rows_it_looks_at(
    runs: dict[str, Result], method: str, rows: int
) -> None:
    looks = rows / K * (SLOTS - WARM_UP) / SLOTS  # the warm-up looks at nothing
    assert runs[method].forward == pytest.approx(1 + looks)
    assert runs[method].backward == 1


def test_two_models_are_billed_twice(runs: dict[str, Result]) -> None:
    pair = runs["Decoupling"]
    assert pair.models == 1
    assert pair.backward == pytest.approx(2)
    assert pair.forward > 2 * 4  # two models look at batches of 4 k rows, and learn from at most k
    assert all(run.models == 0 for name, run in runs.items() if name != "Decoupling")


def test_what_a_method_remembers_is_billed(runs: dict[str, Result]) -> None:
    assert runs["naive"].state == runs["ITLM"].state == runs["OGRS"].state == 0
    assert runs["ELR"].state > DIGITS_HELD / 2 * 10 * 4  # a probability a class, for most rows
    assert runs["forward, running"].state == 10 * 10 * 4  # the confusion
    assert runs["Decoupling"].state > 4 * 64 * 10  # a model


def test_shares_are_shares(runs: dict[str, Result]) -> None:
    for run in runs.values():
        shares = (run.accuracy, run.accuracy_ema, run.purity, run.coverage)
        assert all(0 < share <= 1 for share in shares), run
        assert run.lost == 0
    assert 0.6 < runs["naive"].purity < 0.8


def test_only_a_selector_that_estimates_the_clean_ratio_is_queried(
    runs: dict[str, Result],
) -> None:
    assert all(math.isnan(run.clean_ratio_estimated) for run in runs.values())
    plausible = run_cell(Cell("Plausible", "digits", "symmetric", 0.7, SLOTS, 0))
    assert 0 < plausible.clean_ratio_estimated <= 1


def test_the_oracle_is_pure() -> None:
    assert run_cell(Cell("oracle", "digits", "pair", 0.3, SLOTS, 0)).purity == 1


class Blind:
    """Never picks the classes 3 and 5."""

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        seen = ((pool.labels != 3) & (pool.labels != 5)).nonzero()[:, 0]
        return Picks(draw(seen, k, generator))


def test_classes_that_vanish_from_the_picks_are_counted(monkeypatch) -> None:
    blind = Method("blind", selecting(lambda _: Blind()), "none")
    monkeypatch.setattr(board, "METHODS", (blind,))
    monkeypatch.setattr(board, "PATIENCE", 20)
    assert run_cell(Cell("blind", "digits", "symmetric", 0.7, SLOTS, 0)).lost == 2


def test_separation_is_that_of_a_loop_over_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(20, (90,), generator=generator) / 20  # many are equal
    wrong = torch.rand(90, generator=generator) < 0.2 + 0.5 * scores
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[wrong] for b in scores[~wrong]]
    assert board.roc_area(scores, wrong) == pytest.approx(float(sum(pairs)) / len(pairs))


def test_tasks_come_one_after_another_and_a_sample_of_them_is_kept() -> None:
    place = PLACES["digits-blurry"]
    scene = Scene(place, digits(), "symmetric", 0.6, 300, 0)
    trainer, seen = scene.trainer(), []
    for item in scene.stream():
        slot = trainer.step(item)
        seen.append(slot.seen)
    assert len(seen) == 300
    assert seen[-1] == DIGITS_HELD
    ends = [seen[60 * task - 1] for task in range(1, 6)]
    for before, after in zip([0, *ends], ends, strict=False):
        assert after - before == pytest.approx(DIGITS_HELD / 5, abs=25)
    held = trainer.held()
    assert len(held) == 100
    parts = torch.bucketize(held.ids, torch.tensor(ends), right=True)
    assert torch.bincount(parts, minlength=5).min() > 5, "the first tasks are forgotten"
    result = run_cell(Cell("PuriDivER", "digits-blurry", "symmetric", 0.6, 40, 0))
    assert result.clean_ratio_true > 0.4
