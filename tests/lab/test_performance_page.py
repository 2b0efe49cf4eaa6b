"""docs/performance.md holds what the files of results hold, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.lab.pages.measurements import save, save_rows, verdict
from tamis.lab.pages.performance_page import BUFFERS, write

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "results"


def test_the_page_is_that_of_the_files() -> None:
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert page == write(RESULTS / "benchmarks"), "run python -m benchmarks.page"


@pytest.mark.parametrize(
    ("measured", "bar", "word"),
    [
        ("120 (101 to 130)", ">= 100", "yes"),
        ("1,120 (99 to 1,300)", ">= 1000", "yes, but the interval crosses it"),
        ("99 (80 to 101)", ">= 100", "**no**"),
        ("0.041 (0.012 to 0.049)", "<= 0.05", "yes"),
        ("-0.002 (-0.010 to 0.003)", "<= 0.05", "yes"),
        ("4.01", "<= 4", "**no**"),
        ("4.01", "", ""),
        ("none", "none", "yes"),
        ("called a synchronizing operation", "none", "**no**"),
    ],
)
def test_a_bar_is_judged_as_it_is_meant(measured: str, bar: str, word: str) -> None:
    assert verdict(measured, bar) == word


def test_a_bar_that_does_not_hold_is_named(tmp_path: Path) -> None:
    rows = [("memory: bytes", "3500", "<= 3482"), ("memory: other", "1", "<= 2")]
    save_rows(tmp_path / "slots.csv", rows)
    page = write(tmp_path)
    assert "1 of 2 bars hold. These do not:\n\n- memory: bytes\n\n" in page
    assert "| memory: bytes | 3500 | <= 3482 | **no** |" in page


def test_each_file_has_its_part(tmp_path: Path) -> None:
    assert "## Buffers" not in write(tmp_path)
    line = dict(zip(BUFFERS, ("Ring", "2000000", "250", "0.10"), strict=True))
    save(tmp_path / "buffers.csv", (*BUFFERS, "machine"), [line | {"machine": "an abacus"}])
    page = write(tmp_path)
    assert "| Ring | 2,000,000 | 250 | 0.10 |" in page
    assert "Measured on: an abacus." in page
