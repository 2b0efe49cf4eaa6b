"""tamis lab frontier: passes are counted, budgets reached, runs kept, and the page is theirs."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.lab import frontier
from tamis.lab.experiments import frontier as experiment
from tamis.lab.frontier import Cell, Point, run_cell
from tamis.lab.pages.frontier_page import PART, panels, to_markdown
from tamis.lab.rows import read
from tamis.lab.scene import PLACES

ROOT = Path(__file__).parents[2]
DIGITS = 1347 * 3 // 4
K = PLACES["digits"].k
POINT = Point("naive", "digits", "symmetric", 0.5, 0, 3, 3.1, 33, 0.5, 0.6, "here")


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Point]]:
    return {
        name: run_cell(Cell(name, "digits", "symmetric", 0.5, 0), [8, 2])
        for name in ("naive", "SSR", "ILL", "DivideMix")
    }


def test_a_run_stops_with_the_slot_that_reaches_the_budget(runs: dict[str, list[Point]]) -> None:
    for name, points in runs.items():
        assert [point.budget for point in points] == [2, 8]
        for point in points:
            slot = 3 * 2 * 4 * K + 2 * 4 * K  # no slot of these costs more
            assert point.budget <= point.passes < point.budget + slot / DIGITS, name
    for point in runs["naive"]:
        assert point.passes == pytest.approx(3 * K * point.slots / DIGITS)


def test_a_dearer_method_gets_fewer_slots(runs: dict[str, list[Point]]) -> None:
    slots = {name: points[-1].slots for name, points in runs.items()}
    assert slots["ILL"] == pytest.approx(slots["naive"] / 2, abs=1)  # two views of each row
    assert slots["DivideMix"] == pytest.approx(slots["naive"] / 2, abs=1)  # in its warm-up
    assert slots["SSR"] < slots["naive"]  # which it passes, and judges candidates
    assert len({point.accuracy for points in runs.values() for point in points}) > 4


def test_the_test_is_not_counted(runs: dict[str, list[Point]]) -> None:
    """Other budgets on the way change nothing at the last one."""
    (alone,) = run_cell(Cell("naive", "digits", "symmetric", 0.5, 0), [8])
    assert alone == runs["naive"][-1]


def test_a_second_run_runs_what_is_missing(tmp_path: Path, monkeypatch, capsys) -> None:
    done = []

    def count(cell: Cell, budgets, folder) -> list[Point]:
        done.append(cell)
        return frontier.run_cell(cell, budgets, folder)

    monkeypatch.setattr(experiment, "run_cell", count)
    monkeypatch.chdir(tmp_path)
    some = "lab frontier --data digits --methods naive,oracle --seeds 1 --jobs 1 --out out"
    assert main([*some.split(), "--passes", "0.5,1", "--page", "page.md"]) == 0
    assert len(done) == 2
    first = (tmp_path / "page.md").read_text()
    assert "## digits, symmetric noise, clean ratio 0.5" in first
    assert "| method | 0.5 | 1 | side information |" in capsys.readouterr().out
    assert main([*some.split(), "--passes", "0.5,1", "--page", "page.md"]) == 0
    assert len(done) == 2
    assert (tmp_path / "page.md").read_text() == first
    assert main([*some.split(), "--passes", "1,1.5"]) == 0
    assert len(done) == 4
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        lines = [(row["method"], row["budget"]) for row in csv.DictReader(file)]
    assert len(lines) == len(set(lines)) == 6
    assert (tmp_path / "out" / "frontier.png").stat().st_size > 5_000


def test_a_failure_stops_no_other(tmp_path: Path, monkeypatch, capsys) -> None:
    def fail(cell: Cell, budgets, folder) -> list[Point]:
        if cell.method == "naive":
            raise RuntimeError("no")
        return frontier.run_cell(cell, budgets, folder)

    monkeypatch.setattr(experiment, "run_cell", fail)
    some = "lab frontier --data digits --methods naive,oracle --seeds 1 --jobs 1 --passes 0.5"
    assert main([*some.split(), "--out", str(tmp_path)]) == 1
    assert "RuntimeError: no" in capsys.readouterr().out
    assert [point.method for point in read(tmp_path / "results.csv", Point)] == ["oracle"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--passes 0", "--passes takes numbers above 0"),
        ("--passes some", "--passes takes numbers above 0"),
        ("--data mnist-once", "its rows arrive over all slots"),
        ("--methods orgs", "no 'orgs'"),
        ("--seeds 0", "--seeds is at least 1"),
    ],
)
def test_a_mistake_costs_one_line(tmp_path: Path, flags: str, text: str, capsys) -> None:
    assert main(["lab", "frontier", *flags.split(), "--out", str(tmp_path)]) == 2
    assert text in capsys.readouterr().err


def test_what_knows_the_truth_leads_nowhere(tmp_path: Path) -> None:
    points = [
        replace(POINT, method=method, budget=budget, seed=seed, accuracy=accuracy)
        for method, accuracy in (("naive", 0.7), ("SSR", 0.8), ("oracle", 0.9))
        for budget in (3, 10)
        for seed in (0, 1)
        if (method, budget) != ("SSR", 3)
    ]
    text = to_markdown(points, panels(points), tmp_path / "page.md")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[2:] == [
        "| oracle | .900 ±.000 | .900 ±.000 | every right label |",
        "| SSR | - | **.800 ±.000** | nothing |",
        "| naive | **.700 ±.000** | .700 ±.000 | nothing |",
    ]
    assert "The frontier: naive at 3, SSR at 10." in text


def test_the_page_is_that_of_the_results() -> None:
    page = ROOT / "docs" / "frontier.md"
    points = read(ROOT / "results" / "frontier" / "results.csv", Point)
    wanted = to_markdown(points, panels(points), page)
    assert f"<!-- {PART} -->\n{wanted}\n<!-- /{PART} -->" in page.read_text()
