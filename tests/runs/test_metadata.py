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


def test_the_clean_ratio_has_its_band_and_a_reason_where_that_is_wide(tmp_path: Path) -> None:
    assert RUN.clean_ratio_text == ""
    scored = replace(RUN, scored=200, wrong=50)
    assert scored.clean_ratio_text == "0.75"
    write_metadata(tmp_path, replace(scored, clean_band=(0.7, 0.8)))
    assert read_metadata(tmp_path).clean_ratio_text == "0.75 (0.70 to 0.80)"
    wide = replace(scored, clean_band=(0.6, 0.95)).clean_ratio_text
    assert wide.startswith("0.75 (0.60 to 0.95): wrong labels may agree with each other")
    assert scored.begun().clean_ratio is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[1]",
        "{",
        '{"classes": 3, "slots": "x", "ended": "<b>", "settings": []}',
        '{"clean_band": [1, "x"]}',
    ],
)
def test_what_is_missing_or_odd_is_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "about.json").write_text(content)
    assert read_metadata(tmp_path) == RunMetadata()


def test_no_file_is_an_older_run(tmp_path: Path) -> None:
    assert read_metadata(tmp_path) == RunMetadata()
