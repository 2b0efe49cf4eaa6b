"""The example on a real Ray cluster, here, of two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.distributed import Ranks
from tests.support.ranks.on_ray import JOB, result_of

pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ray_train.py"
pytestmark = pytest.mark.slow


def test_two_workers_learn_what_one_machine_learns() -> None:
    """Few rows, one seed: python -m benchmarks.ranks has all rows and ten."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--seeds", "1", "--rows", "400"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ray"] == pytest.approx(found["single"], abs=0.05)
    assert min(found["ray"]) > 0.8


def test_two_workers_are_one_job_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    """As one rank that was never stopped: two jobs of one rank each would have other picks."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ranks.on_ray", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    assert (tmp_path / "killed").exists()
    unbroken = result_of(Ranks(), JOB)
    for number, found in enumerate(json.loads(done.stdout.splitlines()[-1])):
        assert found == {"rank": number, "of": 2} | unbroken
