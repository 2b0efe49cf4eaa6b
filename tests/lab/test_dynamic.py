"""The dynamic stream: each part takes the place of the one before, with its own clean ratio."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tamis.lab.dynamic import READINGS, ROWS, Parted, mean_ratio, run_dynamic, runs, slots_of
from tamis.lab.table import Settings, methods
from tamis.streams import digits

SMALL = Settings(part_slots=6, part_rows=100, warm_up=3, part_every=3)


@pytest.fixture
def scene() -> Parted:
    place = replace(SMALL.place("digits"), held=400)
    return Parted(place, digits(), "symmetric", 0.5, 24, 0, ratios=(0.9, 0.1, 0.5, 1.0))


def test_the_papers_numbers_are_read_both_ways() -> None:
    assert READINGS["noise"] == pytest.approx((0.9, 0.7, 0.8, 0.85))
    assert READINGS["clean"] == (0.1, 0.3, 0.2, 0.15)
    assert (mean_ratio("noise"), mean_ratio("clean")) == (0.8125, 0.1875)
    assert slots_of(Settings()) == 20_000
    assert set(ROWS) < methods(SMALL).keys()


def test_a_part_comes_at_once_and_takes_the_place_of_the_one_before(scene: Parted) -> None:
    trainer, items = methods(SMALL)["naive"].build(scene), scene.stream()
    parts, seen = list(scene.parts()), set()
    for slot in range(24):
        trainer.step(next(items, None))
        pool, part = trainer.buffer.pool(), parts[slot // 6]
        assert len(pool) == 100
        assert torch.equal(pool.ids, part.ids)
        assert torch.equal(pool.inputs, part.inputs)
        assert torch.equal(pool.labels, part.labels)
        seen |= set(pool.ids.tolist())
    assert len(seen) == 400
    assert next(items, "over") == "over"


def test_parts_are_other_rows_each_with_its_own_share_of_right_labels(scene: Parted) -> None:
    parts = list(scene.parts())
    shares = [part.clean.float().mean().item() for part in parts]
    assert shares == pytest.approx(scene.ratios, abs=0.12)
    rows = {tuple(row) for part in parts for row in part.inputs.flatten(1).tolist()}
    assert len(rows) == 400
    assert len(set(scene.held.tolist())) == 400


def test_all_parts_are_random_rows_by_seed(scene: Parted) -> None:
    other = replace(scene, seed=1, passes=scene.passes, models=[])
    assert set(scene.held.tolist()) != set(other.held.tolist())


def test_a_run_has_a_line_at_the_end_of_every_quarter() -> None:
    (run, *others) = runs(SMALL, ["digits"], ["noise", "clean"], ["OGRS", "Plausible"], range(2))
    assert len(others) == 7
    lines = run_dynamic(run, SMALL)
    assert [line.slot for line in lines] == [3, 6, 9, 12, 15, 18, 21, 24]
    for before, after in pairwise(lines[1::2]):
        assert before.clean_ratio_true != after.clean_ratio_true
    for quarter, ratio in zip(lines[1::2], READINGS["noise"], strict=True):
        assert quarter.clean_ratio_true == pytest.approx(ratio, abs=0.12)
    again = run_dynamic(run, SMALL)
    assert [line.accuracy_ema for line in again] == [line.accuracy_ema for line in lines]
