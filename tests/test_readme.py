"""The README's programs run as printed, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parent.parent / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=["trainer", "own loop"])
def test_programs_run(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        names: dict[str, object] = {}
        exec(program, names)  # noqa: S102
    if "monitor" in names:
        assert "Accuracy(raw=0." in capsys.readouterr().out
        assert names["monitor"].purity > 0.9


def test_the_programs_are_short() -> None:
    assert len(PROGRAMS[0].splitlines()) <= 15


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
