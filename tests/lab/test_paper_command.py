"""tamis lab reproduce table and dynamic as a person uses them: killed, gone on with, and quick."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.lab import table
from tamis.lab.experiments import paper
from tamis.lab.experiments.paper import seconds_like
from tamis.lab.experiments.workers import Deadline, run_all
from tamis.lab.rows import append, header, read
from tamis.lab.table import Line, Run, Settings, by_run

SMALL = ["--data", "digits", "--clean-ratios", ".7", "--processes", "1", "--no-page"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reproduce(*flags: str) -> int:
    return main(["lab", "reproduce", *flags])


def ends(path: str) -> dict[tuple[str, ...], list[tuple[int, float]]]:
    curves = by_run(read(Path(path, "curves.csv"), Line))
    return {name: [(line.slot, line.accuracy) for line in curve] for name, curve in curves.items()}


def curve_of(run: Run, slots: int = 40) -> list[Line]:
    fields = (run.experiment, run.data, run.reading, run.clean_ratio, run.method, run.seed)
    return [
        Line(*fields, slots * part // 4, 0.5, 0.6, 0.7, 0.8, 0.7, 0.6, 2.0, "here")
        for part in (1, 2, 3, 4)
    ]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs that were made, without making them."""
    done: list[Run] = []

    def fake(run: Run, settings: Settings, folder: Path | None) -> list[Line]:
        done.append(run)
        return curve_of(run, settings.slots)

    monkeypatch.setattr(table, "run_table", fake)
    return done


@pytest.mark.slow
def test_what_was_killed_goes_on_and_comes_to_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*SMALL, "--methods", "naive", "--seeds", "4", "--slots", "60"]
    path = Path("killed/curves.csv")
    context = multiprocessing.get_context("fork")
    process = context.Process(target=die_in_the_third, args=(*flags, "--out", "killed"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(ends("killed")) == 2
    path.write_bytes(path.read_bytes()[:-100])  # as if the last block was being written
    assert reproduce("table", *flags, "--out", "killed") == 0
    assert reproduce("table", *flags, "--out", "unbroken") == 0
    assert ends("killed") == ends("unbroken")
    assert {len(curve) for curve in ends("killed").values()} == {20}
    assert "naive" in capsys.readouterr().out


def die_in_the_third(*flags: str) -> None:
    kept = []

    def dying(path: Path, curve: list[Line]) -> None:
        kept.append(curve)
        if len(kept) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, curve)

    paper.append = dying
    torch.set_num_threads(1)
    reproduce("table", *flags)


def test_only_what_is_missing_runs_and_half_a_block_is_made_again(ran: list[Run]) -> None:
    flags = ("table", *SMALL, "--slots", "40", "--methods", "naive,OGRS", "--out", "here")
    assert reproduce(*flags, "--seeds", "1") == 0
    assert [run.method for run in ran] == ["naive", "OGRS"]
    assert reproduce(*flags, "--seeds", "2") == 0
    assert [run.seed for run in ran] == [0, 0, 1, 1]
    path = Path("here/curves.csv")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], *lines[2:-1]]))  # the first of one, the last of another
    assert len(read(path, Line)) == 14
    assert reproduce(*flags, "--seeds", "2") == 0
    assert [(run.method, run.seed) for run in ran[4:]] == [("naive", 0), ("OGRS", 1)]
    assert len(read(path, Line)) == 16
    assert path.read_text().splitlines()[0] == ",".join(header(Line))


def test_ctrl_c_keeps_finished_runs(ran: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    counting = table.run_table

    def stop(run: Run, settings: Settings, folder: Path | None) -> list[Line]:
        if len(ran) == 3:
            raise KeyboardInterrupt
        return counting(run, settings, folder)

    monkeypatch.setattr(table, "run_table", stop)
    assert reproduce("table", *SMALL, "--slots", "40", "--out", "here") == 130
    assert len(by_run(read(Path("here/curves.csv"), Line))) == 3


def test_one_run_that_fails_stops_no_other(
    ran: list[Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counting = table.run_table

    def fail(run: Run, settings: Settings, folder: Path | None) -> list[Line]:
        return 1 / 0 if run.method == "naive" else counting(run, settings, folder)  # type: ignore[return-value]

    monkeypatch.setattr(table, "run_table", fail)
    assert reproduce("table", *SMALL, "--slots", "40", "--seeds", "1", "--out", "here") == 1
    assert len(ran) == 10
    assert "1 of 11 runs are left" in capsys.readouterr().out


def test_at_the_limit_what_runs_is_given_up() -> None:
    deadline = Deadline.after(600)
    outcomes = run_all(time.sleep, [0.0, 600.0, 600.0], 2, deadline)
    assert next(outcomes) is None
    object.__setattr__(deadline, "at", time.monotonic() + 0.2)
    assert list(outcomes) == []  # nobody waits for the two that sleep


def test_what_would_not_end_in_time_is_not_begun() -> None:
    outcomes = list(run_all(abs, [-1, 50, -2], 1, Deadline.after(30), lambda cell: float(cell)))
    assert outcomes == [1, 2]
    assert list(run_all(abs, [-1], 1, Deadline.after(0))) == []


def test_how_long_a_run_takes_is_known_from_those_before() -> None:
    run = Run("table", "cifar10", "", 0.9, "OGRS", 3)
    done = [curve_of(Run("table", "cifar10", "", 0.5, "OGRS", 0), slots=10_000)]
    assert seconds_like(done, run) == pytest.approx(paper.SPARE * 20)
    assert seconds_like(done, Run("table", "mnist", "", 0.9, "OGRS", 3)) == 0


def test_the_quick_one_is_marked_and_keeps_apart(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ("--quick", "--data", "digits", "--methods", "naive", "--processes", "1")
    assert reproduce("table", *quick, "--slots", "40", "--clean-ratios", "0.9") == 0
    assert reproduce("dynamic", *quick, "--slots", "40", "--readings", "noise") == 0
    printed = capsys.readouterr().out
    assert printed.count("the quick version") == 2
    names = {line.experiment for line in read(Path("runs/quick/curves.csv"), Line)}
    assert names == {"quick table", "quick dynamic"}
    page = Path("runs/quick/results.md").read_text()
    assert "Not the paper's" in page
    assert "### digits, mlp, 40 slots" in page
    assert "slot 10, .9" in page
    for name in ("digits-accuracy", "digits-picks", "digits-ratio", "dynamic-digits-accuracy"):
        assert Path("runs/quick", f"{name}.png").stat().st_size > 5000


def test_the_page_is_written_again_without_training(ran: list[Run]) -> None:
    run = Run("table", "mnist", "", 0.9, "OGRS", 0)
    Path("kept").mkdir()
    append(Path("kept/curves.csv"), curve_of(run, 10_000))
    Path("page.md").write_text("mine\n<!-- paper -->\n<!-- /paper -->\nalso mine\n")
    assert reproduce("page", "--out", "kept", "--page", "page.md") == 0
    page = Path("page.md").read_text()
    assert page.startswith("mine\n<!-- paper -->\n## The paper's experiments on real data\n")
    assert page.endswith("<!-- /paper -->\nalso mine\n")
    assert "![Accuracy over slots](kept/mnist-accuracy.png)" in page
    assert Path("kept/mnist-accuracy.png").exists()
    assert not ran


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("table --seeds 0", "--seeds is at least 1"),
        ("table --slots 0", "--slots is at least 1"),
        ("table --processes 0", "--processes is at least 1"),
        ("table --data minst", "no 'minst'; there are mnist, cifar10, digits"),
        ("table --methods ITLM", "no 'ITLM'; nearest: ITLM 0.9"),
        ("table --methods zzz", "there are OGRS; OGRS, paper; naive"),
        ("table --clean-ratios 2", "--clean-ratios takes shares"),
        ("dynamic --readings both", "no 'both'; there are noise, clean"),
        ("table --page page.md", "<!-- paper -->"),
        ("page --page page.md", "<!-- paper -->"),
        ("table --out page.md", "cannot be a folder"),
        ("table --out other", "other columns"),
        ("table --slots 40 --out longer", "longer runs"),
    ],
)
def test_a_mistake_costs_one_line_before_anything_runs(
    flags: str, text: str, ran: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("page.md").write_text("no marks")
    for name in ("other", "longer"):
        Path(name).mkdir()
    Path("other/curves.csv").write_text("a,b\n1,2\n")
    append(Path("longer/curves.csv"), curve_of(Run("table", "digits", "", 0.9, "OGRS", 0), 60))
    what, *more = flags.split()
    data = [] if "--data" in more or what == "page" else ["--data", "digits"]
    assert reproduce(what, *data, *more) == 2
    printed = capsys.readouterr().err
    assert text in printed
    assert len(printed.splitlines()) == 1
    assert not ran
