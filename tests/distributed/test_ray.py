"""The example on a real Ray cluster, here, of two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")
EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_train.py"
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
