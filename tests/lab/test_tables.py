"""The comparison on tables: cells, methods, the CSV that grows, the page."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.lab import tables
from tamis.lab.experiments.tables import append, read
from tamis.lab.made_tables import make_table
from tamis.lab.pages.tables_page import Line, page_of
from tamis.lab.table_sets import TABLES
from tamis.lab.tables import LABEL, Cell, Measured, noise_of, split, tamis_on, write


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "small", partial(make_table, 80, 2, 9))


def test_made_tables_have_missing_values_and_every_class() -> None:
    table = make_table(300, 3, 1)
    assert set(table.labels) == {0, 1, 2}
    assert {len(cells) for cells in table.columns.values()} == {300}
    empty = [cells.count("") for cells in table.columns.values()]
    assert 50 < sum(empty) < 200


@pytest.mark.parametrize("noise", tables.NOISES)
def test_wrong_labels_are_as_many_as_wanted(noise: str) -> None:
    labels = torch.randint(3, (20_000,), generator=torch.Generator().manual_seed(0))
    corrupted = noise_of(noise, labels, 3).corrupt(
        labels[:, None], labels, 0.4, torch.Generator().manual_seed(1)
    )
    assert (~corrupted.clean).double().mean().item() == pytest.approx(0.4, abs=0.01)
    for number in range(3):  # the right label is the most frequent one of its class
        assert corrupted.labels[labels == number].mode().values == number


def test_a_split_holds_a_quarter_of_each_class_out() -> None:
    rows = split(Cell("small", "symmetric", 0.2, 0))
    assert len(rows.train.labels) + len(rows.test.labels) == 80
    assert len(rows.test.labels) == pytest.approx(20, abs=1)
    assert torch.equal(rows.given == torch.from_numpy(rows.train.labels), rows.clean)


def test_the_file_and_the_page(tmp_path: Path) -> None:
    lines = [
        Line(method, Cell("small", noise, wrong, 0), Measured(value, value / 2, 1.0, 2.0, 100.0))
        for method, value in (("tamis", 0.9), ("random forest", 0.8), ("MLP", 0.7))
        for noise in tables.NOISES
        for wrong in (0.2, 0.4)
    ]
    for line in lines:
        append(tmp_path / "tables.csv", line)
    assert read(tmp_path / "tables.csv") == lines
    alone = Line("tamis", Cell("other", "symmetric", 0.2, 0), Measured(0.1, 0.1, 1.0, 1.0, 1.0))
    page = page_of([*lines, alone])  # a cell that other methods have not been run on
    assert "| tamis | .900 | .900 | .450 | .450 |" in page
    assert "| small (1) | .900 | .800 random forest |" in page
    assert "1.0 + 2.0 s, 100 MB" in page


def test_what_is_not_known_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "tables", "--tables", "nothing"]) == 2
    assert "no table 'nothing'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_runs_what_is_missing(tmp_path: Path) -> None:
    words = ["lab", "tables", "--tables", "small", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*words, "--methods", "logistic regression", "tamis"]) == 0
    first = (tmp_path / "tables.csv").read_text()
    assert len(first.splitlines()) == 1 + 2 * 4
    page = tmp_path / "page.md"
    assert main([*words, "--methods", "tamis", "random forest", "--page", str(page)]) == 0
    assert (tmp_path / "tables.csv").read_text().startswith(first)
    assert len(read(tmp_path / "tables.csv")) == 3 * 4
    assert "cleanlab with it" in page.read_text()


@pytest.mark.slow
def test_a_cell_is_what_the_command_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = Cell("iris", "symmetric", 0.4, 0)
    rows = split(cell)
    write(tmp_path / "train.csv", rows.train, rows.given)
    write(tmp_path / "test.csv", rows.test, torch.from_numpy(rows.test.labels))
    run = ["train", str(tmp_path / "train.csv"), "--label", LABEL, "--out", str(tmp_path / "run")]
    assert main([*run, "--test", str(tmp_path / "test.csv")]) == 0
    accuracy = tamis_on(cell).accuracy
    assert f"averaged weights {accuracy:.3f}" in " ".join(capsys.readouterr().out.split())
