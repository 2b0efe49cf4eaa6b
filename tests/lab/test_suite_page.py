"""The table of a suite, and what its cells come to."""

from __future__ import annotations

from pathlib import Path

from tamis.lab.board import Cell, Result
from tamis.lab.pages.suite_page import to_markdown, write_suite
from tamis.lab.rows import read

ROOT = Path(__file__).parents[2]


def result(method: str, noise: str, accuracy: float, seed: int = 0, **more: float) -> Result:
    cell = Cell(method, "digits", noise, 0.7, 300, seed)
    numbers = dict.fromkeys(("purity", "coverage", "milliseconds", "forward", "backward"), 1.0)
    return Result(
        **vars(cell), accuracy=0.0, accuracy_ema=accuracy, models=0, state=0, lost=0, **numbers,
        **more,
    )  # fmt: skip


def some_results() -> list[Result]:
    found = {"clean_ratio_low": 0.5, "clean_ratio_high": 0.9, "clean_ratio_true": 0.7}
    return [
        *(result(name, "boundary", 0.6, clean_ratio_true=0.7) for name in ("naive",)),
        result("oracle", "boundary", 0.8),
        result("Plausible", "boundary", 0.7, 0, **found, clean_ratio_estimated=0.8, inside=0.9),
        result("Plausible", "boundary", 0.72, 1, **found, clean_ratio_estimated=0.84, inside=0.7),
        result("naive", "symmetric", 0.9),
        result("oracle", "symmetric", 0.9),
        result("Plausible", "symmetric", 0.89, 0, **found, clean_ratio_estimated=0.7, inside=0.6),
    ]


def test_a_cell_is_a_line_of_means() -> None:
    lines = to_markdown(some_results()).splitlines()
    assert lines[0] == (
        "| data | noise | clean ratio | naive | oracle | Plausible | estimate | band | inside |"
    )
    assert lines[2] == (
        "| digits | boundary | .700 | .600 | .800 | .710 | .820 | .500 to .900 | .800 |"
    )


def test_it_names_where_we_are_below_naive_training_and_how_far_from_it() -> None:
    text = to_markdown(some_results())
    assert "below naive training in 1 of 2 cells: digits, symmetric, 0.7." in text
    assert "naive .600, Plausible .710, oracle .800: 55% of the way." in text
    assert "off by .060 on average, by .120 at the most (digits, boundary, 0.7)" in text
    assert "80% of the slots in 1 of 2 cells." in text


def test_without_naive_training_there_is_a_table_alone() -> None:
    assert to_markdown(some_results()[3:4]).count("\n") == 3


def test_it_goes_between_the_marks_of_its_name(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- structure -->\nold\n<!-- /structure -->\nafter\n")
    text = write_suite(some_results(), "structure", page)
    assert page.read_text() == f"before\n<!-- structure -->\n{text}\n<!-- /structure -->\nafter\n"


def test_the_table_of_blurry_tasks_is_that_of_its_results() -> None:
    page = (ROOT / "docs" / "methods" / "puridiver.md").read_text()
    runs = read(ROOT / "results" / "blurry" / "results.csv", Result)
    ratios, names = (
        (0.8, 0.6, 0.4),
        ("Plausible", "naive", "oracle", "PuriDivER", "SSR", "DivideMix"),
    )
    runs = [run for run in runs if run.data == "digits-blurry"]
    runs.sort(key=lambda run: (run.seed, ratios.index(run.clean_ratio), names.index(run.method)))
    assert f"<!-- blurry -->\n{to_markdown(runs)}\n<!-- /blurry -->" in page
