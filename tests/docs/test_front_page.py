"""The numbers and the picture of the README and of the site's front page are those of results."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from statistics import mean

import pytest

from tamis.cli.main import main
from tamis.lab.experiments.tables import read
from tamis.lab.methods import METHODS
from tamis.lab.pages import front_page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_the_command_writes_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make results` changes nothing, and trains nothing: there is no cell left to run."""
    for name in ("tables", "plausible", "reliability"):
        shutil.copytree(RESULTS / name, tmp_path / "results" / name)
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/index.md", "docs/compare.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    flags = ["--out", "results/tables", "--page", "docs/compare.md", "--front", "."]
    assert main(["lab", "tables", "--minutes", "0", *flags]) == 0
    for name in ("README.md", "docs/index.md", "docs/compare.md"):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), name
    for name in ("wrong-labels", "wrong-labels-dark", "wrong-labels-narrow"):
        assert (tmp_path / "results" / "tables" / f"{name}.png").stat().st_size > 10_000


def test_means_are_those_of_a_loop() -> None:
    """Of each table first, then over tables."""
    with (RESULTS / "tables" / "tables.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if float(row["wrong"]) == 0.4]
    tables = {row["table"] for row in rows}
    for method in ("tamis", "MLP"):
        each = [
            mean(float(row["accuracy"]) for row in rows
                 if (row["method"], row["table"]) == (method, table))
            for table in tables
        ]  # fmt: skip
        number = f"{mean(each):.3f}".removeprefix("0")
        row = next(
            line for line in (ROOT / "README.md").read_text().splitlines()
            if line.startswith("| accuracy, 40%")
        )  # fmt: skip
        assert number in row


def test_tables_that_another_model_wins_are_named() -> None:
    lines = read(RESULTS / "tables" / "tables.csv")
    worse = [
        line._replace(measured=line.measured.__class__(0.0, 0.0, 1.0, 1.0, 1.0))
        if (line.method, line.cell.table) == ("tamis", "wine") else line
        for line in lines
    ]  # fmt: skip
    assert "wine" not in front_page.behind(lines, 0.2)
    assert "wine" in front_page.behind(worse, 0.2)


def test_the_count_of_methods_is_that_of_the_board() -> None:
    for page in ("README.md", "docs/tutorials/new_selector.md"):
        assert f"the {len(METHODS)} " in (ROOT / page).read_text(), page


def test_the_readme_has_the_paper_s_claim_as_results_have_it() -> None:
    rows = (ROOT / "docs" / "results.md").read_text().splitlines()
    row = next(row for row in rows if row.startswith("| OGRS beats naive training |"))
    fast, printed = re.findall(r"in (\d+ of \d+)", row)
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"its fast form beats naive training in {fast} cells" in readme
    assert f"algorithm 1 as printed in {printed} (" in readme
