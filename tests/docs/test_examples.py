"""Every example runs as a program of its own, and those that should pick the same rows do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"ray_train"}
"""What needs minutes, and has a test of its own."""
FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = [example for example in sorted(FOLDER.glob("*.py")) if example.stem not in ELSEWHERE]
SAME_PICKS = {"plain_loop", "data_loader", "lightning_module", "hugging_face", "skorch_net"}
"""The same rows, model and seed: the same picks, and so the same accuracy."""
BEATEN = {"tabular", "text_transformer", "river_stream"}
"""Naive training beside tamis."""
OWN_DATA = {"pictures": (0.95, 0.9), "texts": (0.7, 0.6), "hugging_face_data": (0.95, 0.8)}
"""Files of one's own: the accuracy on new ones, and the share of suspects that are wrong."""
last_lines: dict[str, str] = {}


def last_line(example: Path) -> str:
    if example.stem not in last_lines:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(example)],
            capture_output=True,
            text=True,
            check=False,
            # More threads than cores, as where tests run side by side, are slower by far.
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        last_lines[example.stem] = done.stdout.splitlines()[-1]
    return last_lines[example.stem]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_examples_run_and_keep_their_word(example: Path) -> None:
    line = last_line(example)
    if example.stem in SAME_PICKS:
        assert line == last_line(example.with_stem("plain_loop"))
    elif example.stem in BEATEN:
        naive, tamis = map(float, re.findall(r"(?:naive|tamis) (0\.\d+)", line))
        assert tamis > naive + 0.01
    elif example.stem in OWN_DATA:
        accuracy, *_, found = map(float, re.findall(r"(\d\.\d+)", line))
        least, least_found = OWN_DATA[example.stem]
        assert accuracy > least
        assert found > least_found
    elif example.stem == "batch_sampler":
        assert float(re.findall(r"accuracy (0\.\d+)", line)[0]) > 0.93
    else:
        assert example.stem == "cleanlab_issues"
        assert all(float(share) > 0.85 for share in re.findall(r"(0\.\d+)", line))


def test_examples_are_short() -> None:
    for example in EXAMPLES:
        assert len(example.read_text().splitlines()) <= 75, example.name
