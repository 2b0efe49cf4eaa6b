"""Numbers on the pages are those of the files that the commands wrote."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest

from tamis.lab import rows
from tamis.lab.board import Result
from tamis.lab.pages.suite_page import to_markdown
from tamis.runs import RunFiles

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "results"
PAGE = (DOCS / "methods" / "ogrs.md").read_text()


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / "audit" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


@pytest.mark.parametrize("ratio", ["0.9", "0.5", "0.3"])
def test_the_table_of_bars(ratio: str) -> None:
    def of(method: str, column: str) -> str:
        rows = [
            float(row[column])
            for row in read("bars.csv")
            if (row["name"], row["data"], float(row["clean_ratio"]))
            == (method, "mnist", float(ratio))
        ]
        assert len(rows) == 3
        return short(mean(rows))

    pairs = [f"{of(m, 'accuracy')} / {of(m, 'accuracy_ema')}" for m in ("naive", "OGRS", "oracle")]
    assert f"| {ratio} | {' | '.join(pairs)} | {of('OGRS', 'purity')} |" in PAGE


def test_the_table_of_settings() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for row in read("settings.csv"):
        numbers = f"| {short(float(row['accuracy']))} | {short(float(row['purity']))} |"
        assert any(numbers in line for line in lines), row["name"]


def test_numbers_of_the_ablation() -> None:
    (row,) = (
        row
        for row in read("ablation.csv")
        if (row["name"], row["clean_ratio"]) == ("default", "0.5000")
    )
    assert f"{float(row['purity']):.3f}, {float(row['accuracy']):.3f}" in PAGE


def read_curves() -> list[dict[str, str]]:
    with (RESULTS / "paper" / "curves.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_of_plausible() -> None:
    _, _, page = (DOCS / "methods" / "plausible.md").read_text().partition("\n## Numbers\n")
    with (RESULTS / "plausible" / "results.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    runs += [
        line | {"data": "cifar10-resnet", "noise": "symmetric"}
        for line in read_curves()
        if (line["experiment"], line["data"], line["slot"]) == ("table", "cifar10", "8000")
    ]
    lines = [line for line in page.splitlines() if line.startswith(("| mnist-", "| cifar10-"))]
    assert len(lines) == 11
    for line in lines:
        data, noise, ratio, *numbers, _ = (cell.strip() for cell in line.strip("| ").split("|"))
        for method, number in zip(("Plausible", "oracle", "naive"), numbers, strict=True):
            found = [
                float(run["accuracy_ema"])
                for run in runs
                if (run["method"], run["data"], run["noise"]) == (method, data, noise)
                and float(run["clean_ratio"]) == float(ratio)
            ]
            wanted = f"{mean(found):.4f}".removeprefix("0") + f" ({len(found)})" if found else "-"
            assert number == wanted, line


def test_the_table_of_structured_noise() -> None:
    runs = rows.read(RESULTS / "structure" / "results.csv", Result)
    page = (DOCS / "methods" / "plausible.md").read_text()
    methods = ("Plausible", "naive", "oracle", "BARE")
    wanted = to_markdown(sorted(runs, key=lambda run: methods.index(run.method)))
    for line in wanted.splitlines():
        assert line in page.splitlines()


def test_what_the_page_states_of_the_fallback() -> None:
    """With and without it, and naive; over all seeds, and of the one that chose no setting."""
    folder = RESULTS / "structure"
    runs = [
        *rows.read(folder / "results.csv", Result),
        *rows.read(folder / "without_fallback.csv", Result),
    ]
    text = " ".join((DOCS / "methods" / "plausible.md").read_text().split())
    text = text[text.index("Without the fallback (") : text.index("<!-- structure -->")]

    def accuracy(method: str, data: str, ratio: float, seeds: Sequence[int] = (0, 1, 2)) -> str:
        cell = (method, data, "symmetric", ratio)
        found = [
            run.accuracy_ema
            for run in runs
            if (run.method, run.data, run.noise, run.clean_ratio) == cell and run.seed in seeds
        ]
        assert len(found) == len(seeds)
        return f"{mean(found):.3f}"[1:]

    spots = (("cifar10", 0.5), ("cifar10", 0.3), ("cifar10-fall", 0.3))
    without, kept = "Plausible without fallback", "Plausible"
    first, second, third = (accuracy(without, *spot) for spot in spots)
    assert f"is {first} at a clean ratio of .5, {second} at .3, and {third} where" in text
    for method, words in ((kept, "With the fallback it is"), ("naive", "naive training gives")):
        first, second, third = (accuracy(method, *spot) for spot in spots)
        assert f"{words} {first}, {second} and {third}" in text
    fall = ("made-table-fall", 0.3)
    assert f"gives {accuracy(without, *fall)} without and {accuracy(kept, *fall)} with it" in text
    first, second, third = (accuracy(without, *spot, seeds=[2]) for spot in spots)
    assert f"CIFAR-10 gives {first}, {second} and {third} without" in text
    first, second, third = (accuracy(kept, *spot, seeds=[2]) for spot in spots)
    assert f"and {first}, {second} and {third} with the fallback" in text


def test_how_far_off_an_audited_clean_ratio_is() -> None:
    runs = rows.read(RESULTS / "structure" / "audited.csv", Result)
    errors = [abs(run.clean_ratio_estimated - run.clean_ratio_true) for run in runs]
    text = " ".join((DOCS / "methods" / "plausible.md").read_text().split())
    assert f"ratio is then off by {mean(errors):.3f} on average".replace(" 0.", " .") in text


def test_how_far_off_the_clean_ratio_of_plausible_is() -> None:
    page = " ".join((DOCS / "methods" / "plausible.md").read_text().split())
    off = []
    for ratio in (0.9, 0.7, 0.5, 0.3):
        errors = [
            abs(float(line["clean_ratio_estimated"]) - float(line["clean_ratio_true"]))
            for line in read_curves()
            if (line["experiment"], line["data"], line["method"])
            == ("table", "cifar10", "Plausible")
            and float(line["clean_ratio"]) == ratio
            and int(line["slot"]) >= 2000
        ]
        off.append(f"{mean(errors):.3f}".removeprefix("0"))
    wanted = f"is off by {off[0]} at .9, {off[1]} at .7, {off[2]} at .5 and {off[3]} at .3"
    assert wanted in page


def test_the_table_of_the_tracker() -> None:
    page = (DOCS / "methods" / "tracker.md").read_text()
    with (RESULTS / "tracker" / "results.csv").open(newline="") as file:
        runs = [run for run in csv.DictReader(file) if run["change"] == "none"]
    lines = [line for line in page.splitlines() if line.startswith(("| symmetric", "| pair"))]
    assert len(lines) == 5
    for line in lines:
        stream, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        noise, ratio = stream.split()
        wanted = []
        for selector in ("naive", "OGRS", "Plausible"):
            mine = [
                run
                for run in runs
                if (run["selector"], run["noise"]) == (selector, noise)
                and float(run["clean_ratio"]) == float(ratio)
            ]
            assert len(mine) == 3
            wanted += [mean(float(run[name]) for run in mine) for name in ("error", "held")]
        assert numbers == [f"{number:.3f}".removeprefix("0") for number in wanted]


def test_the_table_of_the_tracker_on_cifar10() -> None:
    page = (DOCS / "methods" / "tracker.md").read_text()
    with (RESULTS / "tracker" / "cifar10" / "results.csv").open(newline="") as file:
        runs = [run for run in csv.DictReader(file) if run["change"] == "none"]
    lines = [line for line in page.splitlines() if line.startswith("| CIFAR-10, ")]
    assert 2 * len(lines) == len(runs) == 10
    for line in lines:
        stream, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        noise, ratio = stream.removeprefix("CIFAR-10, ").split()
        wanted = []
        for selector in ("naive", "Plausible"):
            (mine,) = (
                run
                for run in runs
                if (run["selector"], run["noise"]) == (selector, noise)
                and float(run["clean_ratio"]) == float(ratio)
            )
            wanted += [float(mine[name]) for name in ("error", "held", "width")]
        assert numbers == [f"{number:.3f}".removeprefix("0") for number in wanted]


def test_the_table_of_faults() -> None:
    """Every row of both files is on the page, as it was measured."""
    page = (DOCS / "reliability.md").read_text()
    for name in ("results.csv", "sources.csv"):
        with (RESULTS / "reliability" / name).open(newline="") as file:
            for row in csv.DictReader(file):
                assert f"| {row['fault']} | {row['figure']} | {row['bar']} | yes |" in page


def test_the_table_of_the_service() -> None:
    page = (DOCS / "service.md").read_text()
    with (RESULTS / "service" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 10
    for row in rows:
        assert f"| {row['what']} | {row['measured']} |" in page


def test_the_table_of_drift() -> None:
    page = (DOCS / "methods" / "plausible.md").read_text()
    with (RESULTS / "plausible" / "drift.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    lines = [line for line in page.splitlines() if line.startswith("| drift: ")]
    assert len(lines) == len({run["method"] for run in runs}) == 6
    for line in lines:
        name, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        wanted = []
        for ratio in (0.5, 0.3):
            mine = [
                run
                for run in runs
                if (f"drift: {run['method']}", float(run["clean_ratio"])) == (name, ratio)
            ]
            assert len(mine) == 3
            for column in ("accuracy_ema", "purity", "clean_ratio_estimated"):
                number = mean(float(run[column]) for run in mine)
                wanted.append(f"{number:.3f}".removeprefix("0") if number == number else "-")
        assert numbers == wanted


def test_the_ablation_of_plausible() -> None:
    page = (DOCS / "methods" / "plausible.md").read_text()
    with (RESULTS / "plausible" / "ablation.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    (head,) = (line for line in page.splitlines() if line.startswith("| | digits"))
    cells = [cell.strip() for cell in head.strip("| ").split("|")]
    lines = [line for line in page.splitlines() if line.startswith("| Plausible")]
    assert len(lines) == len({run["method"] for run in runs}) == 10
    for line in lines:
        method, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        for cell, number in zip(cells, numbers, strict=True):
            data, ratio = cell.replace(", pair", "").split()
            noise = "pair" if "pair" in cell else "symmetric"
            found = [
                float(run["accuracy_ema"])
                for run in runs
                if (run["method"], run["data"], run["noise"]) == (method, data, noise)
                and float(run["clean_ratio"]) == float(ratio)
            ]
            assert number == short(mean(found)), (method, cell)


def test_the_page_on_review_lists_every_file_of_a_run() -> None:
    page = (DOCS / "review.md").read_text()
    names = [name for key, name in vars(RunFiles).items() if not key.startswith("_")]
    assert [name for name in names if f"`{name}`" not in page] == []
