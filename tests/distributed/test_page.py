"""docs/scale.md says what the files of results say, and no more."""

from __future__ import annotations

from benchmarks.ranks import PAGE, fill_page


def test_the_tables_are_those_of_the_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == fill_page(page), "run python -m benchmarks.ranks --page"
