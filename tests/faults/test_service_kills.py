"""A service that is killed under load has every label that it accepted, and trains on it once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.service_kills import check_nothing_lost, kill_under_load
from tests.support.services import train_table

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_no_accepted_label_is_lost(kills: int, tmp_path: Path) -> None:
    folder = train_table(tmp_path, "--capacity", "100000")
    sent = kill_under_load(folder, kills)
    assert len(sent.accepted) > 10 * kills
    check_nothing_lost(folder, sent)
