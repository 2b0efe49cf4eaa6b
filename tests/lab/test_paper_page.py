"""The paper's part of the page: numbers beside the paper's, and every claim that does not hold."""

from __future__ import annotations

import math
import re
from pathlib import Path

from tamis.lab import board
from tamis.lab.dynamic import mean_ratio
from tamis.lab.pages import board_page
from tamis.lab.pages.board_findings import about
from tamis.lab.pages.board_tables import as_tables, in_order, summarise
from tamis.lab.pages.markdown import put_between
from tamis.lab.pages.paper_claims import Place, printed_faults, standings, table_findings
from tamis.lab.pages.paper_page import PART, draw_all, to_markdown, write_paper
from tamis.lab.rows import read
from tamis.lab.table import CLEAN_RATIOS, Line, Settings, methods

DOCS = Path(__file__).parent.parent.parent / "docs"
RESULTS = DOCS.parent / "results"
SEEDS = 2


def lines_of(
    method: str,
    averaged: float,
    ratio: float = 0.9,
    data: str = "mnist",
    raw: float | None = None,
    reading: str = "",
    slots: tuple[int, ...] = (5000, 10_000),
) -> list[Line]:
    """Two seeds, 0.02 apart."""
    experiment = "dynamic" if reading else "table"
    raw = averaged if raw is None else raw
    guess = 0.6 if method == "Plausible" else math.nan
    return [
        Line(
            experiment, data, reading, ratio, method, seed, slot,
            raw + 0.02 * seed - 0.01, averaged + 0.02 * seed - 0.01, 0.9, 0.8, 0.7, guess, 9, "H200"
        )
        for seed in range(SEEDS) for slot in slots
    ]  # fmt: skip


def findings(lines: list[Line], data: str = "mnist") -> list[str]:
    places = [Place(data, "", ratio, 10_000) for ratio in CLEAN_RATIOS]
    return table_findings(places, standings([lines]))


def page_of(lines: list[Line]) -> str:
    return to_markdown(lines, Path("page.md"), Path("paper"), Settings())


def test_a_cell_has_both_accuracies_with_deviations_and_the_papers_number() -> None:
    page = page_of(lines_of("OGRS", 0.95, raw=0.94))
    (row,) = re.findall(r"^\| \[?OGRS\b(?!, paper).*$", page, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:5] == [".940 ±.014 / .950 ±.014", "*.9273*", "not run", "*.8952*"]
    assert cells[-1] == "2, 0, 0, 0"
    assert "Runs: 2. Made on H200 (2)." in page


def test_the_papers_own_faults_are_reported() -> None:
    text = printed_faults()
    assert "CIFAR-10 at .9: OGRS, .6502, is beaten by naive (.6913)." in text
    assert "MNIST at .7: OGRS, .8952, is beaten by ITLM 0.9 (.9133)." in text
    assert "MNIST at .9: OGRS, .9273, beats oracle (.9208)." in text
    assert any(line.startswith("MNIST at .3: ITLM with the right ratio, .4003") for line in text)
    assert not any(line.startswith("CIFAR-10 at .5: OGRS") for line in text)


def test_naive_above_ogrs_is_reported_beside_what_the_paper_has() -> None:
    mnist = findings([*lines_of("OGRS", 0.95), *lines_of("naive", 0.96)])
    assert (
        "MNIST at .9: OGRS does not beat naive, .950 against .960; in the paper it does, .9273"
        " against .9035." in mnist
    )
    both = [*lines_of("OGRS", 0.70, data="cifar10"), *lines_of("naive", 0.80, data="cifar10")]
    assert (
        "CIFAR-10 at .9: OGRS does not beat naive, .700 against .800; in the paper neither, .6502"
        " against .6913." in findings(both, "cifar10")
    )
    fine = findings([*lines_of("OGRS", 0.97), *lines_of("naive", 0.96)])
    assert not any("naive" in line for line in fine)


def test_itlm_is_held_against_the_claims_of_the_paper() -> None:
    here = [
        *lines_of("OGRS", 0.70, 0.7, "cifar10"),
        *lines_of("ITLM 0.9", 0.80, 0.7, "cifar10"),
        *lines_of("ITLM 0.7", 0.75, 0.7, "cifar10"),
        *lines_of("ITLM 0.5", 0.60, 0.7, "cifar10"),
    ]
    text = findings(here, "cifar10")
    assert (
        "CIFAR-10 at .7: OGRS (.700) is beaten by ITLM 0.9 (.800), ITLM 0.7 (.750); in the paper"
        " by none." in text
    )
    assert (
        "CIFAR-10 at .7: ITLM is not best with the right ratio: ITLM 0.7 (.750) ends"
        " below ITLM 0.9 (.800)." in text
    )
    assert (
        "CIFAR-10 at .7: N/A in the paper, not converged; here: ITLM 0.7 (.750), ITLM 0.5 (.600)."
        in text
    )


def test_the_default_is_held_against_the_papers_number() -> None:
    below = findings(lines_of("OGRS", 0.92, raw=0.91))
    assert (
        "MNIST at .9: OGRS ends at .910 ±.014 / .920 ±.014, not above the paper's .9273." in below
    )
    half = findings(lines_of("OGRS", 0.94, raw=0.91))
    assert any("by its averaged weights alone: .910" in line for line in half)
    assert findings(lines_of("OGRS", 0.94)) == [
        "OGRS ends above the paper's own number in every cell of MNIST that was run."
    ]
    there_is_no_number = findings(lines_of("OGRS", 0.3, 0.3, "cifar10"), "cifar10")
    assert there_is_no_number == []


def test_our_own_rule_is_held_against_every_row_but_the_oracle() -> None:
    rows = [*lines_of("Plausible", 0.95), *lines_of("oracle", 0.99), *lines_of("BARE", 0.94)]
    assert findings(rows) == [
        "Plausible is beaten by no row but oracle in any cell here that was run."
    ]
    beaten = findings([*rows, *lines_of("naive", 0.96)])
    assert beaten == ["MNIST at .9: Plausible (.950) is beaten by naive (.960)."]


def test_the_stream_is_judged_at_the_end_of_each_quarter() -> None:
    slots = (2500, 5000, 7500, 10_000, 12_500, 15_000, 17_500, 20_000)

    def of(method: str, averaged: float) -> list[Line]:
        return lines_of(
            method, averaged, mean_ratio("noise"), "cifar10", reading="noise", slots=slots
        )

    page = page_of([*of("Plausible", 0.6), *of("ITLM 0.9", 0.7), *of("OGRS", 0.5)])
    assert (
        "| method | slot 5,000, .9 | slot 10,000, .7 | slot 15,000, .8 | slot 20,000, .85 |" in page
    )
    for slot in ("5,000", "10,000", "15,000", "20,000"):
        assert (
            f"- noise reading, slot {slot}: Plausible (.600) is beaten by ITLM 0.9 (.700)." in page
        )
        assert f"- noise reading, slot {slot}: OGRS (.500) is beaten by ITLM 0.9 (.700)." in page
    assert "slot 2,500" not in page
    assert page.count("| not run | not run | not run | not run | 0 |") == 6 + 9  # rows, readings


def test_settings_stand_on_the_page_with_their_reasons() -> None:
    page = page_of([])
    assert "| k | 64 | K, rows a slot" in page
    assert "| colour\\_model | resnet18 |" in page
    assert "is\\_quick" not in page
    assert "Runs: 0. Made on nothing yet." in page


def test_a_run_that_is_shorter_than_others_is_left_out(tmp_path: Path) -> None:
    lines = [*lines_of("OGRS", 0.95), *lines_of("naive", 0.9, slots=(5000,))]
    assert "Runs: 2." in page_of(lines)
    assert len(draw_all(lines, Settings())) == 3
    page = write_paper(lines, tmp_path)
    assert page == tmp_path / "results.md"
    text = page.read_text()
    assert str(tmp_path) not in text
    for name in re.findall(r"\]\((.*\.png)\)", text):
        assert (tmp_path / name).stat().st_size > 5000


def test_the_page_of_the_project_is_what_its_files_hold() -> None:
    page = DOCS / "results.md"
    text = page.read_text()
    curves = RESULTS / "paper" / "curves.csv"
    part = to_markdown(read(curves, Line), page, RESULTS / "paper", Settings())
    assert put_between(text, part, PART) == text
    results = in_order(read(RESULTS / "board" / "results.csv", board.Result))
    (title,) = re.findall("^## (The board of .*)$", text, re.MULTILINE)
    tables = as_tables(summarise(results))
    assert put_between(text, board_page.to_markdown(tables, about(results), page, title)) == text
    for name in re.findall(r"\]\((../results/paper/.*?\.png)\)", text):
        assert (DOCS / name).exists()


def test_what_is_kept_is_small() -> None:
    curves = RESULTS / "paper" / "curves.csv"
    assert not curves.exists() or curves.stat().st_size < 1_000_000
    assert {line.method for line in read(curves, Line)} <= methods(Settings()).keys()
