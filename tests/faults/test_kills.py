"""Short form of the matrix: processes that are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.faults.kills import kill_at_points, kill_at_random
from tests.support.faults.points import LOAD, SAVE, SLOT

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork"),
    pytest.mark.slow,
]


def test_killed_at_random_moments(tmp_path: Path) -> None:
    row = kill_at_random(tmp_path, 20)
    assert row.met, row


@pytest.mark.parametrize("points", [SLOT, SAVE, LOAD], ids=["slot", "save", "load"])
def test_killed_at_named_points(points: dict[str, object], tmp_path: Path) -> None:
    row = kill_at_points(tmp_path, 1, list(points))
    assert row.met, row
