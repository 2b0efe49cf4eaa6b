"""Short form of the matrix; `python -m tests.support.faults.matrix` runs the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults.damage import bit_flips, truncations
from tests.support.faults.disk import failing_disks
from tests.support.faults.hostile import ATTACKS, is_refused
from tests.support.faults.mutants import forgotten_keys
from tests.support.faults.numbers import OPTIMIZERS, WAYS, for_good, now_and_then
from tests.support.faults.points import POINTS, Point


@pytest.mark.slow
def test_a_forgotten_key_is_noticed(tmp_path: Path) -> None:
    row = forgotten_keys(tmp_path)
    assert row.trials > 150
    assert row.met, row


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    row = bit_flips(tmp_path, 40)
    assert row.met, row


def test_what_is_cut_short_is_noticed(tmp_path: Path) -> None:
    row = truncations(tmp_path, 20)
    assert row.met, row


def test_disks_that_fail_lose_nothing(tmp_path: Path) -> None:
    row = failing_disks(tmp_path, 8)
    assert row.met, row


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_checkpoints_do_nothing(name: str, tmp_path: Path) -> None:
    assert is_refused(tmp_path, ATTACKS[name]) == ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_non_finite_steps_are_skipped(name: str, way: str, tmp_path: Path) -> None:
    assert now_and_then(name, way)
    assert for_good(name, way, tmp_path)


@pytest.mark.parametrize("point", POINTS.values(), ids=list(POINTS))
def test_every_point_to_be_killed_at_exists(point: Point) -> None:
    assert callable(getattr(point.owner, point.function))
