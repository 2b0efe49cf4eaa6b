"""docs/review.md: its numbers are those of the files, its pictures and links are there."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import mean

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
RESULTS = DOCS.parent / "results"
PAGE = (DOCS / "review.md").read_text()


@pytest.mark.parametrize(("noise", "file"), [("symmetric", "suspects"), ("pair", "suspects-pair")])
def test_the_table_is_that_of_the_files(noise: str, file: str) -> None:
    with (RESULTS / "review" / f"{file}.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    for ranking in dict.fromkeys(row["ranking"] for row in rows):
        chosen = [row for row in rows if row["ranking"] == ranking]
        values = [
            f"{mean(float(row[name]) for row in chosen):.{digits}f}"
            for name, digits in (("average_precision", 4), ("at_100", 3), ("at_1000", 3))
        ]
        assert f"| {noise} | {ranking} | {' | '.join(values)} |" in PAGE
    ours = {
        row["seed"]: float(row["average_precision"]) for row in rows if row["ranking"] == "tamis"
    }
    for row in rows:
        if row["ranking"] != "tamis":
            assert float(row["average_precision"]) < ours[row["seed"]]
        assert (float(row["right_before"]), float(row["right_after"])) == (0, 1)


def test_links_and_pictures_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (DOCS / target).exists(), target
