"""Numbers on the pages are those of the files that the commands wrote."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "methods" / "ogrs.md").read_text()


def read(name: str) -> list[dict[str, str]]:
    with (DOCS / "audit" / name).open(newline="") as file:
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


def test_the_table_of_plausible() -> None:
    page = (DOCS / "methods" / "plausible.md").read_text()
    with (DOCS / "plausible" / "results.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
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
