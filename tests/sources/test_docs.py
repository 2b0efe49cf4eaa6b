"""The page on sources: its first program runs as printed, and its names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tamis.sources

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"width": 1, "height": 2, "kind": "ant"}\n' * 250)
    exec(PROGRAMS[0], {})  # noqa: S102
    assert capsys.readouterr().out == "100 100\n100 200\n50 250\n"


def test_the_others_name_what_there_is() -> None:
    for program in PROGRAMS:
        compile(program, "docs/sources.md", "exec")
        for name in re.findall(r"\b([A-Z][a-z]\w+)\(", program):
            assert hasattr(tamis.sources, name) or name in ("DataLoader", "Path"), name
