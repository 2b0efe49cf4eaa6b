"""tamis lab tracker: what it counts as right, late or false, and that it resumes."""

from __future__ import annotations

import csv
import math
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from statistics import mean

import pytest
import torch

from tamis.cli.main import main
from tamis.lab.experiments import tracker as command
from tamis.lab.rows import as_row, from_row, header, key, read
from tamis.lab.tracker import (
    Cell,
    Reading,
    Result,
    cells,
    changed,
    false_rate,
    judge,
    measure,
    run_cell,
    scores,
)
from tamis.noise import Change, Estimate
from tamis.streams import Constant, Replay, Symmetric, digits

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "results"
SMALL = Cell(data="digits", slots=120, rows=10)
NO_CHANGES = list[tuple[int, Change]]()


def test_cells_are_distinct_and_results_read_back() -> None:
    many = cells(SMALL, ["naive", "OGRS"], ["noise", "rotated"], 2)
    assert len({key(cell, Cell) for cell in many}) == len(many) == 2 * 2 * (5 + 2)
    result = Result(**asdict(many[0]), error=0.25, kind="noise", delay=math.inf, false_alarms=2)
    again = from_row(Result, as_row(result))
    assert as_row(again) == as_row(result)
    assert again.delay == math.inf
    assert key(again, Cell) == key(many[0], Cell)


@pytest.mark.parametrize("change", ["none", "noise", "rotated", "inverted", "permuted"])
def test_streams_change_in_the_middle_and_only_as_named(change: str) -> None:
    data, cell = digits(), replace(SMALL, change=change, slots=10)
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(1.0), 10, rows_per_slot=4)
    for slot, (was, now) in enumerate(zip(stream, changed(stream, cell, 10), strict=True)):
        late = slot >= 5
        inputs, labels = was.inputs, was.labels
        if late and change == "rotated":
            inputs = inputs.transpose(1, 2).flip(1)
        if late and change == "inverted":
            inputs = 1 - inputs
        if late and change == "permuted":
            labels = (labels + 3) % 10
        assert torch.equal(now.inputs, inputs)
        assert torch.equal(now.labels, labels)


def reading(slot: int, truth: float, value: float, by_alarm: float = 0.5) -> Reading:
    one = Estimate(by_alarm, 0, 1)
    return Reading(slot, truth, Estimate(value, value - 0.02, value + 0.02), one)


def test_estimates_are_held_against_the_truth() -> None:
    steady = [reading(500, 0.9, 0.9), reading(510, 0.9, 0.85), reading(520, 0.9, 0.91)]
    later = [reading(1000, 0.5, 0.9, 0.9), reading(1400, 0.5, 0.54), reading(2000, 0.5, 0.52)]
    figures = measure(Cell("noise", slots=2000), steady + later)
    assert figures["error"] == pytest.approx(0.02)
    assert figures["held"] == pytest.approx(2 / 3)
    assert figures["width"] == pytest.approx(0.04)
    assert (figures["followed"], figures["followed_by_alarm"]) == (400, 400)
    assert figures["late_error"] == pytest.approx(0.02)
    never = measure(Cell("noise", slots=2000), [*steady, reading(1999, 0.5, 0.9, 0.52)])
    assert (never["followed"], never["followed_by_alarm"]) == (math.inf, 999)
    assert "followed" not in measure(Cell("rotated", slots=2000), steady)


def test_alarms_are_false_first_or_repeated() -> None:
    alarms = [(slot, Change(kind, 0, 0.9, 0.5)) for slot, kind in ((90, "noise"), (130, "concept"))]
    found = judge(Cell("rotated", slots=200), [*alarms, (190, alarms[0][1])])
    assert found == {"false_alarms": 1, "delay": 30.0, "kind": "concept", "repeats": 1}
    assert judge(Cell(slots=200), alarms) == {"false_alarms": 2}
    assert judge(Cell("noise"), NO_CHANGES) == {"false_alarms": 0}


def test_scores_stand_beside_those_of_a_dummy_that_fires_as_often() -> None:
    def of(change: str, kind: str, delay: float, **more: int) -> Result:
        return Result(change, slots=4000, kind=kind, delay=delay, **more)

    results = [
        of("none", "", math.nan),
        of("none", "", math.nan, false_alarms=1),
        of("noise", "noise", 40),
        of("noise", "concept", 60, repeats=1),
        of("rotated", "concept", 1500),
    ]
    steady, noise, rotated = scores(results)
    assert (steady.change, steady.runs, steady.found) == ("none", 2, 0.5)
    assert (noise.found, noise.named, noise.delay) == (1, 0.5, 50)
    assert (rotated.found, rotated.named) == (0, 0)  # too late
    assert math.isnan(rotated.delay)
    rate = 5 / (5 * 4000)
    assert steady.dummy_found == pytest.approx(1 - math.exp(-rate * 4000))
    assert noise.dummy_found == pytest.approx(1 - math.exp(-rate * 1000))
    assert noise.dummy_named == pytest.approx(noise.dummy_found / 3)
    rows = 6 * (2 * 3500 + 3 * 1500)
    assert false_rate(results) == pytest.approx(10_000 / rows)


def test_a_cell_runs_the_same_twice_and_follows_its_stream() -> None:
    cell = Cell("permuted", data="digits", clean_ratio=0.9, slots=800, rows=10, seed=3)
    first, again = run_cell(cell), run_cell(cell)
    assert as_row(replace(first, seconds=0.0)) == as_row(replace(again, seconds=0.0))
    assert first.error < 0.05
    assert (first.kind, first.false_alarms) == ("concept", 0)
    assert first.delay < 100


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Cell]:
    """The cells that were run, without running them."""
    done: list[Cell] = []

    def fake(cell: Cell, folder: Path | None, device: str) -> Result:
        assert device == "cpu"
        done.append(cell)
        return Result(**asdict(cell), error=0.01, held=0.9, width=0.04, followed=400.0)

    monkeypatch.setattr(command, "run_cell", fake)
    monkeypatch.chdir(tmp_path)
    return done


def tamis_tracker(more: str) -> int:
    return main(["lab", "tracker", "--data", "digits", "--slots", "40", *more.split()])


def test_the_command_goes_on_where_it_stopped(
    ran: list[Cell], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tamis_tracker("--seeds 1 --selectors naive") == 0
    assert len(ran) == 5 + 3
    assert tamis_tracker("--seeds 1 --selectors naive") == 0
    assert len(ran) == 8
    assert tamis_tracker("--seeds 2 --changes noise") == 0
    assert len(ran) == 8 + 5 * 6
    with Path("runs/tracker/results.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == header(Result)
    width = len(fields(Cell))
    assert [tuple(row[:width]) for row in rows] == [key(cell, Cell) for cell in ran]
    path = Path("runs/tracker/results.csv")
    path.write_bytes(path.read_bytes()[:-5])  # a line cut short is run again
    assert tamis_tracker("--seeds 2 --changes noise") == 0
    assert ran[-1] == ran[-2]
    assert len(read(path, Result)) == len(rows)
    printed = capsys.readouterr().out
    assert "90% of the bands hold the truth" in printed
    assert "rotated" in printed


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--slots 0", "--slots is at least 1"),
        ("--seeds 0", "--seeds is at least 1"),
        ("--changes sideways", "no 'sideways'; there are noise, rotated, inverted, permuted"),
        ("--selectors best", "no 'best'; there are naive, OGRS"),
        ("--out taken", "cannot be a folder"),
        ("--out other", "other columns"),
    ],
)
def test_a_mistake_costs_one_line_before_anything_runs(
    flags: str, text: str, ran: list[Cell], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("")
    Path("other").mkdir()
    Path("other/results.csv").write_text("a,b\n")
    assert tamis_tracker(flags) == 2
    printed = capsys.readouterr().err
    assert text in printed
    assert len(printed.splitlines()) == 1
    assert not ran


def test_numbers_on_the_page_are_those_of_the_file() -> None:
    page = (DOCS / "methods" / "tracker.md").read_text()
    results = read(RESULTS / "tracker" / "results.csv", Result)

    def of(name: str, *where: object) -> str:
        mine = [r for r in results if (r.change, r.selector, *astuple(r)[4:6]) == ("none", *where)]
        assert len(mine) == 3
        return f"{mean(getattr(r, name) for r in mine):.3f}".removeprefix("0")

    for noise, ratio in {(r.noise, r.clean_ratio) for r in results if r.change == "none"}:
        numbers = (of(n, s, noise, ratio) for s in ("naive", "OGRS") for n in ("error", "held"))
        assert f"| {noise} {ratio:g} | {' | '.join(numbers)} |" in page
    for score in scores(results)[1:]:
        line = f"| {score.change} | {score.found:.2f} | {score.named:.2f} | {score.delay:.0f} |"
        assert line in page
