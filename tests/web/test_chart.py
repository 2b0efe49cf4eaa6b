"""Plots as pages draw them: axes, few points however long the run, the same numbers everywhere."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from tamis.runs import Decision, Decisions, Run, RunMetadata, Suspect, write_metadata
from tamis.runs.suspects import write_suspects
from tamis.web.axis import Range, limits, ticks
from tamis.web.chart import MOST_POINTS, Line, Mark, Plot, stair, thin
from tamis.web.drawing import draw
from tamis.web.empty import no_suspects, nothing_left
from tamis.web.run_page import render_run
from tamis.web.run_plots import POINTS


def test_an_axis_begins_where_differences_show() -> None:
    curve = [0.1, *np.linspace(0.9, 0.97, 30)]
    low, high = limits([curve], share=True, zoomed=True)
    assert 0.85 <= low < 0.9 + 0.01
    assert 1 < high < 1.02
    assert limits([curve], share=True, zoomed=False)[0] == 0
    assert limits([np.linspace(0.05, 0.9, 30)], share=True, zoomed=True)[0] == 0
    assert limits([[3.0, 40.0]], share=False, zoomed=False) == pytest.approx((0, 40.8))
    assert limits([], share=True, zoomed=True)[0] == 0


@pytest.mark.parametrize("ends", [(0, 1.02), (0.85, 1.003), (0, 40.8), (3, 99_999), (-0.5, 0.5)])
def test_ticks_are_round_inside_and_few(ends: tuple[float, float]) -> None:
    found = ticks(Range(*ends))
    assert 2 <= len(found) <= 8
    assert all(ends[0] - 1e-9 <= value <= ends[1] + 1e-9 for value in found)
    assert all(
        len(f"{value:.10g}".rstrip("0").replace(".", "").lstrip("-0")) <= 3 for value in found
    )


def test_a_long_curve_is_thinned_and_no_value_is_changed() -> None:
    slots = np.arange(100_000.0)
    values = np.random.default_rng(0).random(100_000)
    few, kept = thin((slots, values))
    assert len(few) == MOST_POINTS
    assert (few[0], few[-1]) == (0, 99_999)
    assert (values[few.astype(int)] == kept).all()
    assert thin((slots[:9], values[:9]))[0] is not None
    assert list(stair([0, 5], [1, 2])) == [(0, 1), (5, 1), (5, 2)]


def test_what_the_script_shows_is_what_the_csv_has() -> None:
    values = (np.arange(30) / 7).tolist()
    columns = {"slot": list(range(30)), "value": values}
    line = Line("one", list(range(30)), values, band=(values, values))
    plot = Plot("p", "T", "C.", [line, Line("", [0], [1.0])], columns, "ms", [Mark(3, "noise")])
    drawn = draw(plot, "#")
    data = json.loads(drawn.data)
    rows = list(csv.DictReader(io.StringIO(plot.to_csv())))
    assert [f"{value:.6g}" for value in data["lines"][0]["values"]] == [r["value"] for r in rows]
    assert [line["name"] for line in data["lines"]] == ["one"]
    assert drawn.marks[0].text == "noise"
    assert drawn.label == "T. At the end: one: 4.1 ms."
    assert all(0 <= float(part) <= 1000 for part in re.split("[ ,]", drawn.lines[0].points))


def test_a_page_of_a_hundred_thousand_slots_is_small(tmp_path: Path) -> None:
    """However many slots: as many points as a screen can show."""
    write_metadata(tmp_path, RunMetadata("rows", ("a", "b"), ended="done"))
    (tmp_path / "log.jsonl").write_text(
        "".join(
            f'{{"slot": {slot}, "accuracy": {slot % 89 / 89}, "purity": 0.9, "seconds": 0.01}}\n'
            for slot in range(100_000)
        )
    )
    page = render_run(Run(tmp_path))
    plots = [json.loads(unescape(text)) for text in re.findall(r'data-chart="([^"]+)"', page)]
    counts = {len(line["slots"]) for plot in plots for line in plot["lines"]}
    assert counts == {MOST_POINTS, POINTS}
    assert "Each point is the mean of 500 slots." in page
    assert len(page) < 300_000


def test_empty_pages_explain_what_comes_next(tmp_path: Path) -> None:
    write_metadata(tmp_path, RunMetadata("rows", ("a", "b"), slots=900))
    page = render_run(Run(tmp_path))
    assert "Nothing has been measured yet" in page
    assert "No suspects yet." in page
    assert "The run is at slot 0 of 900." in page
    assert "Or review suspects with <code>tamis watch</code>" in page
    write_metadata(tmp_path, RunMetadata("rows", ("a", "b"), ended="done"))
    assert f"tamis audit {tmp_path}" in no_suspects(Run(tmp_path))[1]
    write_suspects(tmp_path, [Suspect("x", "a", "b", 0.9)])
    run = Run(tmp_path)
    assert "nothing is decided yet" in render_run(run)
    assert nothing_left(run, 1, "open")[0] == "No suspect matches these filters."
    assert nothing_left(run, 1, "decided")[0] == "Nothing is decided yet."
    Decisions(tmp_path / "decisions.jsonl").decide(Decision("x", "keep"))
    run = Run(tmp_path)
    assert nothing_left(run, 1, "open")[0] == "All done: 1 suspect decided."
    assert f"tamis export {tmp_path} --format corrected" in nothing_left(run, 1, "open")[1]
    assert "1 decided" in render_run(run)
