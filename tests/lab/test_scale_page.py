"""docs/scale.md has the numbers of its files, and no others."""

from __future__ import annotations

from pathlib import Path

from tamis.lab.pages.scale_page import FOLDER, PAGE, fill

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_files() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == fill(page, ROOT / FOLDER), "run python -m benchmarks.ranks --page"
