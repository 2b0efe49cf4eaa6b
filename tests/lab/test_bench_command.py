"""tamis lab bench as a person uses it: stopped, gone on with, and with cells that fail."""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.lab.board import Cell, Result, cells, run_cell
from tamis.lab.experiments import bench
from tamis.lab.experiments.bench import describe
from tamis.lab.experiments.choices import nearest
from tamis.lab.experiments.workers import Failure, run_all
from tamis.lab.methods import METHODS, VARIANTS
from tamis.lab.rows import as_row, from_row, header, key
from tamis.lab.scene import PLACES

SMALL = "--methods naive,OGRS --data gaussians --noise symmetric --clean 0.9,0.6 --slots 8 --jobs 1"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ran(monkeypatch) -> list[Cell]:
    """The cells that were run, in order."""
    done: list[Cell] = []

    def count(cell: Cell, folder: Path | None) -> Result:
        done.append(cell)
        return run_cell(cell, folder)

    monkeypatch.setattr(bench, "run_cell", count)
    return done


def tamis_bench(more: str) -> int:
    return main(["lab", "bench", *SMALL.split(), *more.split()])


def rows_of(name: str) -> list[list[str]]:
    with Path("runs/bench", name).open(newline="") as file:
        return list(csv.reader(file))


def test_a_second_run_runs_nothing_and_a_wider_one_runs_the_rest(ran: list[Cell], capsys) -> None:
    assert tamis_bench("--seeds 1") == 0
    first = rows_of("results.csv")
    assert first[0] == header(Result)
    assert [tuple(row[:6]) for row in first[1:]] == [key(cell, Cell) for cell in ran]
    assert len(ran) == 4
    Path("runs/bench/board.html").unlink()
    assert tamis_bench("--seeds 1") == 0
    assert len(ran) == 4
    assert Path("runs/bench/board.html").exists()
    assert tamis_bench("--seeds 2") == 0
    assert [cell.seed for cell in ran[4:]] == [1] * 4
    assert rows_of("results.csv")[:5] == first
    assert "naive" in capsys.readouterr().out


def test_the_board_shows_what_was_requested() -> None:
    tamis_bench("--seeds 1")
    assert {row[0] for row in rows_of("board.csv")[1:]} == {"naive", "OGRS"}
    tamis_bench("--seeds 1 --methods ogrs --page docs/board.md")
    assert {row[0] for row in rows_of("board.csv")[1:]} == {"OGRS"}
    assert len(rows_of("results.csv")) == 5
    assert "### gaussians, symmetric noise" in Path("docs/board.md").read_text()


def test_a_cell_that_fails_stops_no_other_and_is_tried_again(
    ran: list[Cell], monkeypatch, capsys
) -> None:
    counting = bench.run_cell

    def fail(cell: Cell, folder: Path | None) -> Result:
        if cell.method == "naive" and cell.clean_ratio == 0.9:
            raise RuntimeError("one\nline [red]of[/red] it")
        return counting(cell, folder)

    monkeypatch.setattr(bench, "run_cell", fail)
    assert tamis_bench("--seeds 1") == 1
    assert len(rows_of("results.csv")) == 4
    error = "RuntimeError: one line [red]of[/red] it"
    line = ["naive", "gaussians", "symmetric", "0.9000", "8", "0", error]
    assert rows_of("failed.csv") == [[*header(Cell), "error"], line]
    printed = " ".join(capsys.readouterr().out.split())
    assert f"naive on gaussians, symmetric noise, clean ratio 0.9, seed 0: {error}" in printed
    assert tamis_bench("--seeds 1") == 1
    assert rows_of("failed.csv")[1:] == [line]  # not twice
    assert tamis_bench("--seeds 1 --methods OGRS --clean 0.6,0.3") == 0
    assert rows_of("failed.csv")[1:] == [line]  # this one was not tried
    monkeypatch.setattr(bench, "run_cell", counting)
    assert tamis_bench("--seeds 1") == 0
    assert rows_of("failed.csv")[1:] == []
    assert [cell.method for cell in ran] == ["OGRS", "naive", "OGRS", "OGRS", "naive"]


def test_where_every_cell_fails_there_is_no_board(monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench, "run_cell", lambda cell, folder: 1 / 0)
    assert tamis_bench("--seeds 1") == 1
    assert "4 of 4 runs failed" in capsys.readouterr().out
    assert not Path("runs/bench/board.html").exists()


def test_ctrl_c_leaves_a_file_to_go_on_from(ran: list[Cell], monkeypatch, capsys) -> None:
    counting = bench.run_cell

    def stop(cell: Cell, folder: Path | None) -> Result:
        if len(ran) == 2:
            raise KeyboardInterrupt
        return counting(cell, folder)

    monkeypatch.setattr(bench, "run_cell", stop)
    assert tamis_bench("--seeds 1") == 130
    assert capsys.readouterr().err == "tamis lab bench: stopped\n"
    done = [from_row(Result, row).method for row in rows_of("results.csv")[1:]]
    assert done == ["naive", "OGRS"]
    monkeypatch.setattr(bench, "run_cell", counting)
    assert tamis_bench("--seeds 1") == 0
    assert len(ran) == 4


@pytest.mark.parametrize(("cut", "again"), [(2, 1), (3, 1), (30, 1), (10**6, 4)])
def test_a_line_cut_short_is_run_again(ran: list[Cell], cut: int, again: int) -> None:
    tamis_bench("--seeds 1")
    path = Path("runs/bench/results.csv")
    path.write_bytes(path.read_bytes()[:-cut])
    assert tamis_bench("--seeds 1") == 0
    assert len(ran) == 4 + again
    rows = rows_of("results.csv")
    assert rows[0] == header(Result)
    assert {tuple(row[:6]) for row in rows[1:]} == {key(cell, Cell) for cell in ran[:4]}
    assert len(rows) == 5


class Deadly(Cell):
    """Ends the process that it is sent to."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (7,)


@pytest.mark.slow
def test_processes_come_to_the_same_and_one_that_dies_costs_its_cell() -> None:
    one, two, three = cells(["naive", "OGRS", "ITLM"], ["gaussians"], ["pair"], [0.6], 1, 8)
    outcomes = list(run_all(run_cell, [one, Deadly(*astuple(two)), three], jobs=2))
    assert describe(Failure(two, "its process ended with code 7")) in [
        describe(outcome) for outcome in outcomes if isinstance(outcome, Failure)
    ]
    results = {outcome.method: outcome for outcome in outcomes if isinstance(outcome, Result)}
    assert set(results) == {"naive", "ITLM"}
    here = run_cell(three)
    assert as_row(replace(results["ITLM"], milliseconds=0)) == as_row(replace(here, milliseconds=0))
    for process in multiprocessing.active_children():
        process.join()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--methods orgs", "no 'orgs'; nearest: OGRS"),
        ("--methods ogrs,rho", "no 'rho'; nearest: RHO, average; RHO, holdout."),
        ("--methods zzz", "--list"),
        ("--methods ,", "names nothing"),
        ("--data mnits", "no 'mnits'; nearest: mnist"),
        ("--noise pears", "no 'pears'; nearest: pair"),
        ("--clean 0.5,half", "'0.5,half'"),
        ("--clean 0", "above 0"),
        ("--clean nan", "above 0"),
        ("--seeds 0", "--seeds is at least 1"),
        ("--slots 0", "--slots is at least 1"),
        ("--jobs 0", "--jobs is at least 1"),
        ("--page page.md", "<!-- board -->"),
        ("--out page.md", "cannot be a folder"),
        ("--out other", "other columns"),
        ("--data digits", "pip install 'tamis[demo]'"),
    ],
)
def test_a_mistake_costs_one_line_before_anything_runs(
    flags: str, text: str, ran: list[Cell], monkeypatch, capsys
) -> None:
    Path("page.md").write_text("no marks")
    Path("other").mkdir()
    Path("other/results.csv").write_text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert tamis_bench(flags) == 2
    printed = capsys.readouterr()
    assert text in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not ran
    assert Path("page.md").read_text() == "no marks"


def test_names_may_have_commas_and_any_case() -> None:
    names = "NAIVE,forward,  known,  RHO, average,ogrs, naive"
    known = [method.name for method in (*METHODS, *VARIANTS)]
    found = bench.named(names, known, "methods")
    assert found == ["naive", "forward, known", "RHO, average", "OGRS"]
    assert nearest("co teaching", known) == "nearest: Co-teaching"


def test_list_has_the_side_information_of_each_method(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["lab", "bench", "--list"]) == 0
    *lines, data = capsys.readouterr().out.splitlines()[1:]
    assert data == f"data: {', '.join(PLACES)}"
    everything = (*METHODS, *VARIANTS)
    width = max(len(method.name) for method in everything) + 2
    listed = [(line[:width].strip(), line[width:].strip()) for line in lines]
    assert listed == [(method.name, method.side_information or "nothing") for method in everything]
    assert not Path("runs").exists()
