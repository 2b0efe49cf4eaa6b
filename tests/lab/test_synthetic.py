"""Figure 2 at a small size: its data, its numbers, its folder, its command."""

from __future__ import annotations

import argparse
import csv
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator

from tamis.errors import UsageError
from tamis.lab.commands import reproduce
from tamis.lab.pages.synthetic_page import CLAIMS, Gap, findings, gap_between
from tamis.lab.synthetic import Run, Settings, Summary, draw_task, methods, run_method, summarise
from tamis.model_view import ModelView
from tamis.models import logistic
from tamis.monitoring import Accuracy
from tamis.selectors import PaperOGRS
from tamis.streams import gaussians

TINY = Settings(seeds=2, slots=8, warm_up=4, test_every=3)


def train(settings: Settings, name: str, seed: int = 0) -> Run:
    return run_method(settings, draw_task(settings, seed), methods(settings)[name], lambda: None)


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_split_shares_no_row_and_the_test_labels_are_right() -> None:
    task = draw_task(Settings(), 3)
    held = {tuple(row) for row in task.held.inputs.tolist()}
    assert len(held) == len(task.held) == 200
    assert held == {tuple(row) for row in task.data.inputs.tolist()}
    assert not held & {tuple(row) for row in task.data.test_inputs.tolist()}
    assert len(task.data.test_labels) == 100
    seed = np.random.SeedSequence(3).generate_state(4).tolist()[0]
    assert task.data.test_labels.equal(gaussians(seed=seed).test_labels)


def test_clean_marks_exactly_which_labels_are_flipped() -> None:
    task = draw_task(Settings(), 0)
    truth = {
        tuple(row): label
        for row, label in zip(task.data.inputs.tolist(), task.data.labels.tolist(), strict=True)
    }
    right = [truth[tuple(row)] for row in task.held.inputs.tolist()]
    assert task.held.clean is not None
    flipped = torch.tensor(right) != task.held.labels
    assert flipped.equal(~task.held.clean)


def test_two_labels_of_five_are_flipped() -> None:
    shares = [1 - draw_task(Settings(), seed).held.clean.float().mean() for seed in range(100)]
    assert np.mean(shares) == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / (100 * 200)))


def test_a_seed_changes_data_noise_and_start() -> None:
    one, two = draw_task(Settings(), 0), draw_task(Settings(), 1)
    assert not one.data.inputs.equal(two.data.inputs)
    assert not one.held.clean.equal(two.held.clean)
    assert len({one.model_seed, two.model_seed, one.pick_seed, two.pick_seed}) == 4


@pytest.mark.parametrize("name", methods(TINY))
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    one, two = train(TINY, name), train(TINY, name)
    assert one.losses.equal(two.losses)
    assert one.accuracy == two.accuracy
    assert (one.purity, one.coverage, one.stayed) == (two.purity, two.coverage, two.stayed)


def test_methods_share_the_warm_up_and_part_after_it() -> None:
    runs = [train(TINY, name) for name in methods(TINY)]
    assert {run.tested for run in runs} == {(3, 4, 6, 8)}
    assert len({run.accuracy[:2] for run in runs}) == 1
    assert len({tuple(run.losses.tolist()) for run in runs}) == len(runs)


def test_as_printed_walks_as_the_paper_does() -> None:
    """Among candidates that are the complete pool, chains end where those of PaperOGRS() do."""
    held = draw_task(TINY, 0).held
    torch.manual_seed(0)
    view = ModelView(logistic((2,), 2))
    printed = methods(TINY)["OGRS, as printed"]
    picked = printed.select(held, view, 10, Generator().manual_seed(0)).rows
    generator = Generator().manual_seed(0)
    order = torch.randperm(200, generator=generator)  # candidates come in this order
    expected = order[PaperOGRS().select(held[order], view, 10, generator).rows]
    assert picked.tolist() == expected.tolist()


def test_the_oracle_is_pure_and_leads() -> None:
    settings = Settings(slots=100, warm_up=20)
    oracle, naive = (
        [train(settings, name, seed) for seed in range(6)] for name in ("oracle", "naive")
    )
    assert {run.purity for run in oracle} == {1.0}
    assert 0.5 < summarise("naive", naive).purity < 0.7
    assert gap_between(oracle, naive).side == "above"
    assert summarise("oracle", oracle).separation > summarise("naive", naive).separation


def test_separation_is_the_share_of_pairs_in_the_right_order() -> None:
    run = train(TINY, "naive")
    clean = run.held.clean
    assert replace(run, losses=(~clean).float()).separation == 1
    assert replace(run, losses=clean.float()).separation == 0
    assert replace(run, losses=torch.rand(200)).separation == pytest.approx(0.5, abs=0.2)


def ending_at(accuracies: list[float], warm: float = 0.6) -> list[Run]:
    run = train(TINY, "naive")
    return [
        replace(run, tested=(4, 8), accuracy=(Accuracy(warm, warm), Accuracy(end, end)))
        for end in accuracies
    ]


def test_a_summary_holds_means_and_sample_deviations() -> None:
    summary = summarise("naive", ending_at([0.5, 0.7, 0.6]))
    assert summary.accuracy_mean == summary.accuracy_ema_mean == pytest.approx(0.6)
    assert summary.accuracy_std == summary.accuracy_ema_std == pytest.approx(0.1)


@pytest.mark.parametrize(("points", "side"), [(3.1, "above"), (-3.1, "below"), (-2.9, "level")])
def test_a_gap_within_its_error_is_none(points: float, side: str) -> None:
    assert Gap(points, 3.0).side == side


def test_findings_follow_the_numbers() -> None:
    good, fair, bad = [0.80, 0.81, 0.82], [0.70, 0.71, 0.72], [0.60, 0.61, 0.62]
    runs = {name: ending_at(fair) for name in methods(TINY)}
    sentences = findings(TINY, runs | {"OGRS": ending_at(good), "ITLM, keep 0.9": ending_at(bad)})
    assert "Best of the others is OGRS with 0.810" in sentences[0]
    assert [line.split("paper's claim ")[1] for line in sentences[1:4]] == [
        f"{claim.text} {verdict}."
        for claim, verdict in zip(CLAIMS, ("holds, and more", "holds", "holds"), strict=True)
    ]
    sentences = findings(TINY, runs | {"OGRS": ending_at(bad), "ITLM, keep 0.9": ending_at(good)})
    assert all(line.endswith("does not hold.") for line in sentences[1:4])
    assert "OGRS ends 10.0 points below naive" in sentences[3]


def test_the_warm_up_is_reported_by_seed() -> None:
    begun = [*ending_at([0.7]), *ending_at([0.7], warm=0.4)]
    runs = dict.fromkeys(methods(TINY), begun) | {"OGRS": ending_at([0.8, 0.2])}
    assert findings(TINY, runs)[-1] == (
        "The warm-up leaves 0.500, and in 1 of 2 seeds no better than random; OGRS ends at 0.200 "
        "in those, at 0.800 in the others."
    )


def test_the_command_writes_and_shows_the_same(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert reproduce.run(parse("synthetic", "--seeds", "2", "--slots", "53")) == 0
    printed = capsys.readouterr().out
    folder = Path("runs/synthetic")
    names = {path.name for path in folder.iterdir()}
    assert names == {"figure2.png", "numbers.csv", "findings.txt"}
    assert (folder / "figure2.png").read_bytes().startswith(b"\x89PNG")

    with (folder / "numbers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [field.name for field in fields(Summary)]
    assert [row["method"] for row in rows] == list(methods(Settings()))
    assert [bool(row["stayed"]) for row in rows] == [False] * 4 + [True, True, False]
    settings = Settings(seeds=2, slots=53)
    naive = summarise("naive", [train(settings, "naive", seed) for seed in (0, 1)])
    assert float(rows[0]["accuracy_mean"]) == round(naive.accuracy_mean, 4)
    assert float(rows[0]["purity"]) == round(naive.purity, 4)

    assert "/742 slots" in printed  # 2 seeds, 7 methods, 53 slots
    assert all(f"│ {row['method']} " in printed for row in rows)
    findings = (folder / "findings.txt").read_text().splitlines()
    assert len(findings) == 5
    assert all(finding.split(":")[0] in printed.replace("\n", " ") for finding in findings)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--seeds 1", "--seeds of at least 2"),
        ("--seeds -3", "--seeds of at least 2"),
        ("--slots 50", "--slots 50 is too few"),
        ("--out file", "--out file cannot be a folder"),
        ("--out file/below", "--out file/below cannot be a folder"),
    ],
)
def test_wrong_figures_are_one_line(arguments: str, text: str, tmp_path: Path, monkeypatch) -> None:
    """The command line answers a UsageError with that line and code 2."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(UsageError, match=text) as error:
        reproduce.run(parse("synthetic", *arguments.split()))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [["figure3"], [], ["synthetic", "--seeds", "many"]])
def test_what_cannot_be_parsed_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(*arguments)
    assert stop.value.code == 2
