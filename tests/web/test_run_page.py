"""The report: one file, no network, one script of ours; it reports what the run's files hold."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import (
    AlarmRecord,
    Decision,
    Decisions,
    EstimatePoint,
    NoRunError,
    Run,
    RunMetadata,
    Suspect,
    add_line,
    read_lines,
    read_metadata,
    write_metadata,
    write_suspects,
    write_suspects_csv,
)
from tamis.web.compare_page import name_apart, render_compare
from tamis.web.pages import asset, checksum
from tamis.web.run_page import confusion_csv, render_run, suspects_csv
from tamis.web.run_plots import plots_of
from tamis.web.svg import plain
from tamis.web.tiles import tiles_of
from tests.support.chromium import Chromium
from tests.support.sample_run import BAD, make_hostile

PLOTS = {"accuracy", "purity", "clean_ratio", "agreement", "speed", "by_class"}


@pytest.fixture(scope="module")
def page(finished: Path) -> str:
    return render_run(Run(finished))


def downloads(page: str) -> dict[str, list[dict[str, str]]]:
    found = {}
    for name, data in re.findall(r'download="([^"]+)" href="data:text/csv[^,]+,([^"]+)"', page):
        found[name] = list(csv.DictReader(io.StringIO(base64.b64decode(data).decode())))
    return found


def test_it_asks_for_nothing_and_runs_the_charts_alone(page: str) -> None:
    loads = re.findall(r"(?:src|href)=[\"']([^\"']+)|url\(([^)]+)\)|@import", page)
    assert loads
    assert all(a.startswith(("data:", "#")) or b.startswith("#") for a, b in loads)
    assert page.count("<script") == 1
    assert f"<script>{asset('charts.js')}</script>" in page
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])
    assert policy.startswith(f"default-src 'none'; script-src {checksum(asset('charts.js'))};")
    assert "unsafe" not in policy
    assert not re.search(r"\son\w+=|\sstyle=", page.replace(asset("charts.js"), ""))
    assert page.count('class="chart"') == len(PLOTS)


def test_one_number_of_wrong_labels_beside_the_clean_ratio(finished: Path, tmp_path: Path) -> None:
    """Of all rows, once they are scored; until then the ratio is that of the newest rows."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    metadata = replace(read_metadata(folder), scored=1200, wrong=228, clean_band=None)
    write_metadata(folder, replace(metadata, wrong=None))
    before = {tile.name: tile.note for tile in tiles_of(Run(folder))}
    assert before["clean ratio, estimated"].startswith("newest rows, 90% band")
    write_metadata(folder, metadata)
    tile = {tile.name: tile for tile in tiles_of(Run(folder))}["clean ratio, estimated"]
    assert (tile.value, tile.note) == ("0.81", "about 228 of 1,200 labels are wrong")
    write_metadata(folder, replace(metadata, clean_band=(0.5, 0.95)))
    tile = {tile.name: tile for tile in tiles_of(Run(folder))}["clean ratio, estimated"]
    assert tile.value == "0.81"
    assert tile.note.startswith("0.50 to 0.95; about 228 of 1,200 labels are wrong; ")
    assert "wrong labels may agree with each other" in tile.note
    page = render_run(Run(folder))
    assert "About 228 of 1,200 labels are wrong." in page
    assert page.count("clean ratio, estimated") == 1


def part_means(lines: list[dict], name: str, parts: int) -> list[float]:
    """Return the means over so many parts of the slots, of equal length or one longer."""
    edges = [int(part * len(lines) / parts) for part in range(parts + 1)]
    return [
        sum(line[name] for line in lines[start:end]) / (end - start)
        for start, end in pairwise(edges)
    ]


def test_every_plot_has_its_numbers(page: str, finished: Path) -> None:
    tables = downloads(page)
    assert set(tables) == {f"{name}.csv" for name in PLOTS} | {"confusion.csv", "suspects.csv"}
    lines = read_lines(finished / "log.jsonl")
    averaged = [line["accuracy_ema"] for line in lines if line["accuracy_ema"] is not None]
    rows = [row for row in tables["accuracy.csv"] if row["curve"] == "averaged weights"]
    assert [float(row["value"]) for row in rows] == pytest.approx(averaged, abs=1e-5)
    points = read_lines(finished / "tracked.jsonl")
    assert [float(row["true"]) for row in tables["clean_ratio.csv"]] == pytest.approx(
        [point["true"] for point in points], abs=1e-5
    )
    purity = [float(row["value"]) for row in tables["purity.csv"] if row["curve"] == "purity"]
    assert purity == pytest.approx(part_means(lines, "purity", len(purity)), abs=1e-5)
    speed = [float(row["value"]) for row in tables["speed.csv"] if row["curve"] == "slot"]
    seconds = part_means(lines, "seconds", len(speed))
    assert speed == pytest.approx([1000 * value for value in seconds], rel=1e-3)
    assert len(tables["suspects.csv"]) == len(read_lines(finished / "suspects.jsonl"))
    assert len(tables["confusion.csv"]) == 300


def test_numbers_and_cards(page: str, finished: Path) -> None:
    lines = read_lines(finished / "log.jsonl")
    last = [line["accuracy_ema"] for line in lines if line["accuracy_ema"] is not None][-1]
    assert f"<b>{last:.3f}</b>" in page
    assert page.count('class="card"') == 48
    assert page.count('src="data:image/png;base64,') == 48
    suspect = read_lines(finished / "suspects.jsonl")[0]
    assert f"<s>{suspect['given']}</s>" in page
    assert f"slot {suspect['slot']}" in page
    assert "finished" in page
    for name in ("torch", "selector", "optimizer"):
        assert f'<th scope="row">{name}</th>' in page
    assert page.count('<table class="heat"') == 3


def test_alarms_stand_in_the_page_and_in_plots(folder: Path) -> None:
    add_line(folder / "alarms.jsonl", {"slot": 123, "kind": "noise", "before": 0.9, "after": 0.5})
    run = Run(folder)
    page = render_run(run)
    assert "The share of wrong labels changed: clean ratio 0.90 before, 0.50 after." in page
    assert page.count('<line class="mark"') == len(PLOTS)


def test_decisions_are_reported(folder: Path) -> None:
    name = read_lines(folder / "suspects.jsonl")[0]["id"]
    Decisions(folder / "decisions.jsonl").decide(Decision(name, "relabel", "number 3"))
    page = render_run(Run(folder))
    assert "relabelled number 3" in page
    assert "1 decided" in page


def test_a_run_under_way_an_older_run_and_a_torn_one(finished: Path, tmp_path: Path) -> None:
    young = tmp_path / "young"
    young.mkdir()
    shutil.copy(finished / "about.json", young)
    assert "Nothing has been measured yet" in render_run(Run(young))
    half = (finished / "log.jsonl").read_bytes()[:40_000]
    assert not half.endswith(b"\n")
    (young / "log.jsonl").write_bytes(half)
    assert "<svg" in render_run(Run(young))
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy(finished / "log.jsonl", old)
    shutil.copy(finished / "suspects.csv", old)
    page = render_run(Run(old))
    assert page.count('class="card"') == 48
    assert "did not record them" in page
    with pytest.raises(NoRunError, match="holds no run"):
        Run(tmp_path)


def test_hostile_text_is_displayed_and_never_markup(tmp_path: Path) -> None:
    folder = make_hostile(tmp_path / BAD.replace("/", "_"))
    for page in (render_run(Run(folder)), render_compare(name_apart([folder, folder]))):
        assert page.count("<script") == 1
        assert "<img src=x" not in page
        assert BAD.replace("/", "_") in unescape(page)
    assert BAD in unescape(render_run(Run(folder)))


def test_no_cell_of_a_table_is_a_formula(folder: Path) -> None:
    """Of those behind plots, of the confusion and of suspects."""
    about = json.loads((folder / "about.json").read_text())
    about["classes"] = [f"{'=+-@'[digit % 4]}{digit}" for digit in range(10)]
    (folder / "about.json").write_text(json.dumps(about))
    write_suspects(folder, [Suspect("=1", "+1", "@2", 0.9, 1), Suspect("-1", "-2", "=3", 0.8, 2)])
    Decisions(folder / "decisions.jsonl").decide(Decision("=1", "relabel", "@2"))
    run = Run(folder)
    write_suspects_csv(folder / "suspects.csv", run.suspects)
    tables = [suspects_csv(run), confusion_csv(run), (folder / "suspects.csv").read_text()]
    tables += [plot.to_csv() for plot in plots_of({"=run": run})]
    armed = 0
    for row in csv.reader(io.StringIO("\n".join(tables))):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row), row
        armed += any(cell.startswith(("'=", "'+", "'-", "'@")) for cell in row)
    assert armed > 300


@pytest.mark.parametrize("text", ["$x^2$", "_hidden", "漢字", "a" * 100, "", "\n", "$\\frac{", BAD])
def test_any_text_can_stand_in_a_plot(text: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], label=plain(text))
    assert axes.legend().get_texts()
    figure.savefig(io.BytesIO(), format="svg")


def test_plots_as_files(folder: Path, tmp_path: Path, capsys) -> None:
    plots = tmp_path / "plots"
    assert main(["report", str(folder), "--plots", str(plots), "--suspects", "5"]) == 0
    assert (folder / "report.html").read_text().count('class="card"') == 5
    names = {path.name for path in plots.iterdir()}
    assert names == {f"{name}.{kind}" for name in PLOTS for kind in ("png", "svg", "csv")}
    assert (plots / "purity.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_run_makes_the_same_page(finished: Path, page: str) -> None:
    assert render_run(Run(finished)) == page


def test_runs_side_by_side(folder: Path, finished: Path, tmp_path: Path) -> None:
    about = json.loads((folder / "about.json").read_text())
    about["settings"]["k"] = 99
    (folder / "about.json").write_text(json.dumps(about))
    out = tmp_path / "compare.html"
    arguments = ["compare", str(finished), str(folder), str(folder), "--out", str(out)]
    assert main([*arguments, "--plots", str(tmp_path / "plots")]) == 0
    page = out.read_text()
    assert "3 runs side by side" in page
    assert page.count('class="chart"') == 5
    assert '<th scope="row">k</th><td class="mono">32</td><td class="mono">99</td>' in page
    assert '<th scope="row">seed</th>' not in page
    rows = downloads(page)["purity.csv"]
    assert {row["run"] for row in rows} == {"finished", "run", f"{tmp_path.name}/run"}
    assert (tmp_path / "plots" / "accuracy.svg").exists()


@pytest.mark.parametrize("command", ["report", "compare", "watch"])
def test_no_run_costs_one_line(command: str, tmp_path: Path, capsys) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_a_phone_and_a_monitor(browser: Chromium, folder: Path, width: int) -> None:
    main(["report", str(folder)])
    tab = browser.open((folder / "report.html").as_uri(), width)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.troubles() == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requested())
    tab.close()


@pytest.mark.slow
def test_it_is_dark_where_that_is_preferred_and_prints_on_white(
    browser: Chromium, folder: Path
) -> None:
    main(["report", str(folder)])
    for scheme, dark in (("light", False), ("dark", True)):
        tab = browser.open((folder / "report.html").as_uri(), scheme=scheme)
        ink = tab.run("getComputedStyle(document.querySelector('figure svg')).color")
        assert (min(map(int, re.findall(r"\d+", ink)[:3])) > 150) == dark
        ground = tab.run("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", ground)[:3])) < 60) == dark
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        hidden = "getComputedStyle(document.querySelector('.downloads')).display"
        assert tab.run(hidden) == "none"
        assert len(base64.b64decode(tab.call("Page.printToPDF")["data"])) > 10_000
        tab.close()


@pytest.mark.slow
def test_the_browser_runs_nothing_of_a_hostile_run(browser: Chromium, tmp_path: Path) -> None:
    folder = make_hostile(tmp_path / BAD.replace("/", "_"))
    main(["report", str(folder)])
    tab = browser.open((folder / "report.html").as_uri())
    assert BAD in tab.run("document.body.textContent")
    assert tab.run("document.querySelectorAll('main script, [onerror]').length") == 0
    assert not [text for text in tab.troubles() if "dialog" in text]
    tab.close()


def test_a_run_that_has_grown(tmp_path: Path) -> None:
    """Estimates and confusions of fewer classes than there are now, and alarms that name some."""
    write_metadata(tmp_path, RunMetadata("rows", ("ant", "bee", "cow <b>")))
    for at, classes in enumerate((2, 2, 3)):
        row = [1 / classes] * classes
        point = EstimatePoint(
            50 * at, 0.8, 0.7, 0.9, by_class=tuple(row), confusion=(tuple(row),) * classes
        )
        add_line(tmp_path / "tracked.jsonl", point.to_json())
    alarm = AlarmRecord(120, "new class", subject="cow <b>")
    add_line(tmp_path / "alarms.jsonl", alarm.to_json())
    run = Run(tmp_path)
    page = render_run(run)
    assert "New class: cow &lt;b&gt;." in page
    tables = re.findall(r'<table class="heat"(.*?)</table>', page, re.DOTALL)
    assert [table.count("<tr>") - 1 for table in tables] == [3, 2, 2]  # the newest first
    by_class = {plot.name: plot for plot in plots_of({run.name: run})}["by_class"]
    assert by_class.columns["label cow <b>"] == [None, None, 1 / 3]
    assert confusion_csv(run).count("cow <b>") == 6
    # The newest estimate may be older than the class.
    early = tmp_path / "early"
    early.mkdir()
    write_metadata(early, RunMetadata("rows", ("ant", "bee", "cow")))
    add_line(early / "tracked.jsonl", EstimatePoint(0, 0.8, 0.7, 0.9, None, (0.5, 0.5)).to_json())
    assert render_run(Run(early))


def test_the_share_of_labelled_rows_is_drawn_where_some_lack_a_label(tmp_path: Path) -> None:
    def names(shares: list[float | None]) -> list[str]:
        lines = [{"slot": slot, "labelled": share} for slot, share in enumerate(shares)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "log.jsonl").write_text(text)
        return [plot.name for plot in plots_of({"run": Run(tmp_path)})]

    assert "labelled" in names([0.0, 0.5, 0.6])
    assert "labelled" not in names([1.0, 1.0])
    assert "labelled" not in names([None, None])
