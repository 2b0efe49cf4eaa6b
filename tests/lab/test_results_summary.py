"""The summary of the results: its table, the verdict on each claim, and that the page has it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tamis.lab.pages.board_tables import Spread
from tamis.lab.pages.markdown import put_between
from tamis.lab.pages.paper_claims import Place, Standing, standings
from tamis.lab.pages.paper_page import complete
from tamis.lab.pages.results_summary import PART, claims, of_the_regret, summary_table, to_markdown
from tamis.lab.rows import read
from tamis.lab.table import Line

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / "results" / "audit"
CELL = Place("mnist", "", 0.5, 100)


def standing(value: float) -> Standing:
    return Standing(Spread(value, 0.0), Spread(value, 0.0), 1)


def verdicts(**numbers: float) -> dict[str, str]:
    here = {name.replace("_", " "): standing(value) for name, value in numbers.items()}
    here |= {"OGRS, paper": standing(numbers["OGRS"])}
    return {claim.claim: claim.verdict for claim in claims({CELL: here}, AUDIT)}


def test_a_claim_holds_where_it_holds_in_every_cell() -> None:
    assert verdicts(OGRS=0.9, naive=0.8)["OGRS beats naive training"] == "holds"
    assert verdicts(OGRS=0.8, naive=0.9)["OGRS beats naive training"] == "**does not hold**"


def test_what_was_not_run_cannot_be_judged() -> None:
    found = verdicts(OGRS=0.9, naive=0.8)
    assert found["OGRS beats ITLM where the clean ratio drifts"] == "cannot be judged"


@pytest.mark.parametrize(
    ("ours", "random", "verdict"),
    [(0.4, 0.6, "cannot be judged"), (0.4, 1.2, "holds"), (1.1, 0.6, "**does not hold**")],
)
def test_a_regret_that_random_rows_have_too_shows_nothing(
    tmp_path: Path, ours: float, random: float, verdict: str
) -> None:
    with (tmp_path / "regret.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["setting", "regret", "steps", "exponent"])
        table.writerow(["paper, zeta > 0", "lagrangian", "late", ours])
        table.writerow(["random rows", "lagrangian", "late", random])
    assert of_the_regret(tmp_path / "regret.csv").verdict == verdict


def test_the_best_without_the_truth_is_bold() -> None:
    here = {name: standing(value) for name, value in
            {"naive": 0.7, "ITLM 0.9": 0.75, "ITLM 0.3": 0.8, "oracle": 0.9}.items()}  # fmt: skip
    (row,) = summary_table({CELL: here})[2:]
    assert row == "| MNIST, clean ratio .5 | .700 | - | **.800** | - | - | .900 |"


def test_the_page_has_what_the_files_hold() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    found = standings(complete(read(ROOT / "results" / "paper" / "curves.csv", Line)))
    assert put_between(text, to_markdown(found, AUDIT), PART) == text
    assert (ROOT / "results" / "paper" / "summary.png").exists()
