"""How well scores are calibrated: measured rightly, written, and drawn."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn.metrics import brier_score_loss, roc_auc_score
from torch import Tensor

from tamis.cli.main import main
from tamis.lab.pages.scores_page import draw_reliability, page_of
from tamis.lab.score_quality import (
    Cell,
    area_under_curve,
    bins_of,
    by_rank,
    by_width,
    calibration_error,
    measure,
)
from tamis.web.svg import draw_svg

CELL = Cell("digits", "symmetric", 0.7, 0)


def scored(count: int = 500) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(count, generator=generator).double().round(decimals=2)
    return scores, torch.rand(count, generator=generator) < scores / 2


def test_the_error_is_that_of_a_loop() -> None:
    scores, wrong = scored()
    total = 0.0
    for number in range(15):
        inside = [row for row in range(500) if min(int(scores[row].item() * 15), 14) == number]
        gap = sum(scores[row].item() - wrong[row].item() for row in inside)
        total += abs(gap) / 500
    assert calibration_error(scores, wrong, by_width(scores)) == pytest.approx(total)
    ranked = scores.argsort()
    parts = [ranked[number * 20 : number * 20 + 20] for number in range(15)]
    few = torch.cat(parts)
    expected = sum((scores[part] - wrong[part].double()).sum().abs().item() for part in parts) / 300
    found = calibration_error(scores[few], wrong[few], by_rank(scores[few]))
    assert found == pytest.approx(expected, abs=0.01)  # equal scores may change places


def test_areas_and_squares_are_those_of_scikit_learn() -> None:
    scores, wrong = scored()
    found = measure(CELL, "raw", scores, wrong, 0.5)
    assert found.auc == pytest.approx(roc_auc_score(wrong.numpy(), scores.numpy()))
    assert found.brier == pytest.approx(brier_score_loss(wrong.numpy(), scores.numpy()))
    assert found.expected == pytest.approx(scores.sum().item())
    assert found.suspects == int((scores > 0.5).sum())
    assert found.extreme == int((scores == 1).sum())
    assert area_under_curve(-scores, wrong) == pytest.approx(1 - found.auc)


def test_a_page_and_a_plot_have_both_kinds() -> None:
    scores, wrong = scored()
    lines, bins = [], []
    for cell in (CELL, replace(CELL, data="wine"), replace(CELL, noise="pair", clean_ratio=0.3)):
        for kind, found in (("raw", scores), ("calibrated", scores / 2)):
            lines.append(measure(cell, kind, found, wrong, 0.5))
            bins += bins_of(cell, kind, found, wrong)
    text = page_of(lines, ("digits",))
    assert text.count("| digits |") == 2
    assert (
        text.index("| digits |") < text.index("Tables, mean over 1 seed:") < text.index("| wine |")
    )
    assert f"{lines[0].ece:.3f} / {lines[1].ece:.3f}" in text
    figure = draw_reliability(bins, ("digits",))
    assert [axes.get_title() for axes in figure.axes] == ["digits", "tables"]
    raw = figure.axes[0].lines[1].get_xydata()
    assert len(raw) == 15  # the ambiguous cell is left out
    assert sum(part.rows for part in bins if part.data == "wine" and part.kind == "raw") == 500
    assert draw_svg(figure, "scores").startswith("<?xml")


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Scores\n<!-- scores -->\n<!-- /scores -->\n")
    threads = torch.get_num_threads()
    arguments = ["lab", "suspects", "--calibration", str(tmp_path), "--cells", "iris"]
    assert main([*arguments, "--page", str(page)]) == 0
    torch.set_num_threads(threads)
    with (tmp_path / "calibration.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["calibrated", "raw"] * 4
    assert page.read_text().count("| iris |") == 4
    assert (tmp_path / "calibration.svg").read_text().startswith("<?xml")
    before = (tmp_path / "calibration.csv").read_bytes()
    assert main(arguments) == 0  # nothing is run twice
    assert (tmp_path / "calibration.csv").read_bytes() == before
    assert main(["lab", "suspects", "--calibration", str(tmp_path), "--cells", "nothing"]) == 2
    assert "no data 'nothing'" in capsys.readouterr().err
