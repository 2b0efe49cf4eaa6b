"""RunMetadata: written at once, read back, and forgiving of older runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tamis.runs import RunMetadata, read_metadata, write_metadata

RUN = RunMetadata(
    "clicks.csv", ("cat", "=dog"), (1, 28, 28), (), 500, {"k": 32, "path": Path("a")}
).begun()


def test_it_comes_back(tmp_path: Path) -> None:
    write_metadata(tmp_path, replace(RUN, ended="done", scored=200, wrong=50))
    found = read_metadata(tmp_path)
    assert (found.scored, found.wrong, found.clean_ratio) == (200, 50, 0.75)
    found = replace(found, scored=None, wrong=None)
    assert found.clean_ratio is None
    assert found.settings == {"k": 32, "path": "a"}
    assert replace(found, settings=RUN.settings, ended=None) == RUN
    assert found.ended == "done"
    assert found.versions["torch"]
    assert found.started.endswith("+00:00")


@pytest.mark.parametrize(
    "content",
    ["", "null", "[1]", "{", '{"classes": 3, "slots": "x", "ended": "<b>", "settings": []}'],
)
def test_what_is_missing_or_odd_is_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "about.json").write_text(content)
    assert read_metadata(tmp_path) == RunMetadata()


def test_no_file_is_an_older_run(tmp_path: Path) -> None:
    assert read_metadata(tmp_path) == RunMetadata()
