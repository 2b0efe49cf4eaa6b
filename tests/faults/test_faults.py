"""The short form of the matrix; `python -m tests.faults.matrix` runs the long one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.damage import bit_flips, truncations
from tests.faults.disk import failing_disks
from tests.faults.hostile import ATTACKS, is_refused
from tests.faults.kills import kill_at_points, kill_at_random
from tests.faults.mutants import forgotten_keys
from tests.faults.numbers import OPTIMIZERS, WAYS, for_good, now_and_then
from tests.faults.points import LOAD, SAVE, SLOT
from tests.faults.streams import many_rows, no_information, noise_burst

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@forks
def test_killed_at_random_moments(tmp_path: Path) -> None:
    row = kill_at_random(tmp_path, 20)
    assert row.met, row


@forks
@pytest.mark.parametrize("points", [SLOT, SAVE, LOAD], ids=["slot", "save", "load"])
def test_killed_at_named_points(points: dict[str, object], tmp_path: Path) -> None:
    row = kill_at_points(tmp_path, 1, list(points))
    assert row.met, row


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
    row = failing_disks(tmp_path, 20)
    assert row.met, row


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_checkpoints_do_nothing(name: str, tmp_path: Path) -> None:
    assert is_refused(tmp_path, ATTACKS[name]) == ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_spoilt_steps_are_skipped(name: str, way: str, tmp_path: Path) -> None:
    assert now_and_then(name, way)
    assert for_good(name, way, tmp_path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to see its memory")
def test_memory_does_not_grow_with_the_stream() -> None:
    row = many_rows(300_000)
    assert float(row.figure.split()[0]) < 5, row  # in so few rows, a page more or less shows


def test_a_burst_of_noise_passes() -> None:
    row = noise_burst(1, slots=500)
    assert row.met, row


def test_labels_that_tell_nothing_are_told() -> None:
    row = no_information(1)
    assert row.met, row
