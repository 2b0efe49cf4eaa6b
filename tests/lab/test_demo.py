"""The complete demo: its folder, its numbers, and its page in a real browser with no network."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.lab.demo import LEAD, Result, Settings, prepare, run_method
from tamis.lab.pages.demo_page import standing, true_labels
from tamis.monitoring.record import SlotRecord
from tamis.streams import DataSet, digits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    threads = torch.get_num_threads()
    out = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--out", str(out)]) == 0
    torch.set_num_threads(threads)
    return out


def first_digits(count: int) -> DataSet:
    data = digits()
    return replace(data, inputs=data.inputs[:count], labels=data.labels[:count])


def test_a_short_demo_writes_its_folder(tmp_path: Path, monkeypatch, capsys) -> None:
    """All of it, on the first digits alone."""
    monkeypatch.setattr("tamis.lab.demo.digits", lambda: first_digits(220))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "Plausible" in capsys.readouterr().out
    page = (tmp_path / "index.html").read_text()
    assert "220 handwritten digits" in page
    assert "<pre><code>tamis train table.csv --label COLUMN</code></pre>" in page
    assert (tmp_path / "ground_truth.csv").exists()


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_everything_is_there(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"index.html", "accuracy.png", "purity.png", "coverage.png", "clean_ratio.png"} <= names
    assert {"suspects.csv", "ground_truth.csv", "log-plausible.jsonl", "log-ogrs.jsonl"} <= names
    for log in folder.glob("log-*.jsonl"):
        lines = read_log(log)
        assert [line["slot"] for line in lines] == list(range(1347))


@pytest.mark.slow
def test_the_page_asks_for_nothing_from_elsewhere(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    loads = re.findall(r"(?:src|href)=[\"']([^\"']+)|url\(([^)]+)\)|@import", page)
    assert all(a.startswith(("data:", "#")) or b.startswith("#") for a, b in loads)
    assert page.count("<script>") == 1  # of charts, which the policy in the head names
    assert "script-src &#39;sha256-" in page


@pytest.mark.slow
def test_the_page_reports_what_the_logs_hold(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    for log in ("plausible", "naive", "ogrs", "oracle"):
        lines = read_log(folder / f"log-{log}.jsonl")
        last = [line["accuracy_ema"] for line in lines if line["accuracy_ema"] is not None][-1]
        assert f'<td class="number">{last:.3f}</td>' in page


@pytest.mark.slow
def test_the_page_counts_what_was_found(folder: Path) -> None:
    """Suspects, those whose label is really wrong, and all wrong labels: as the files have them."""
    page = (folder / "index.html").read_text()
    suspects, truths = (
        list(csv.DictReader((folder / name).read_text().splitlines()))
        for name in ("suspects.csv", "ground_truth.csv")
    )
    truth = {row["id"]: row["clean"] for row in truths}
    right = sum(truth[one["id"]] == "0" for one in suspects)
    wrong = list(truth.values()).count("0")
    assert f"<b>{len(suspects)} labels</b> as suspect." in page
    assert f"<b>{right} of them are really wrong</b>, of {wrong} wrong labels in all" in page
    assert right > 0.8 * wrong  # found
    assert right > 0.8 * len(suspects)


def test_what_a_model_has_learned_by_heart_is_counted_by_a_loop() -> None:
    demo = prepare(Settings())
    given, clean = demo.ground_truth.labels.tolist(), demo.ground_truth.clean.tolist()
    true = true_labels(demo)
    assert all((a == b) == right for a, b, right in zip(given, true, clean, strict=True))
    tested = [SlotRecord.from_json({"slot": 0, "accuracy": 0.5, "accuracy_ema": 0.6})]
    for predicted, share in ((given, (1.0, 0.0)), (true, (0.0, 1.0))):
        result = Result("naive", tested, None, 0.0, 0.0, [], [], {}, predicted)
        found = standing(demo, result)
        assert (found.learned, found.recovered) == share


@pytest.mark.slow
def test_order_among_the_methods(folder: Path) -> None:
    """The oracle leads and Plausible is next; what chooses is purer than what picks at random."""
    last, purity = {}, {}
    for log in folder.glob("log-*.jsonl"):
        lines = read_log(log)
        last[log.stem] = [line["accuracy_ema"] for line in lines if line["accuracy_ema"]][-1]
        purity[log.stem] = sum(line["purity"] for line in lines[200:]) / len(lines[200:])
    assert sorted(last, key=last.get, reverse=True)[:2] == ["log-oracle", "log-plausible"]
    assert purity["log-naive"] < 0.85 < purity["log-plausible"]
    assert purity["log-ogrs"] > 0.95


@pytest.mark.slow
def test_the_page_leads_with_the_default(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    assert re.findall(r'<tr><th scope="row">([^<]+)<span class="about">', page)[0] == LEAD
    assert f"After the stream, {LEAD} lists" in page
    assert len(re.findall(rf"<li>{LEAD} ends", page)) == 5


def test_the_clean_ratio_is_followed(tmp_path: Path) -> None:
    demo = prepare(Settings())
    tracked = run_method(demo, "naive", tmp_path / "log", lambda slot: None).tracked
    settled = [slot for slot in tracked if slot % 337 > 250]
    off = [abs(tracked[slot].value - demo.clean_ratio(slot)) for slot in settled]
    assert sum(off) / len(off) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("name", [LEAD, "OGRS"])
def test_a_method_run_twice_gives_the_same(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tamis.lab.demo.digits", lambda: first_digits(400))
    demo = prepare(Settings(test_every=20))  # what a selector remembers of one run stays there
    one, two = (run_method(demo, name, tmp_path / run, lambda slot: None) for run in ("1", "2"))
    assert [line.accuracy for line in one.tested] == [line.accuracy for line in two.tested]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not on this machine")
def test_a_browser_shows_the_curves(folder: Path, tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--window-size=1100,2400"
    )
    done = subprocess.run(
        ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}"]
        + [f"--screenshot={shot}", (folder / "index.html").as_uri()],
        capture_output=True,
        check=False,
    )
    assert shot.exists(), done.stderr.decode()[-500:]
    from matplotlib.image import imread

    pixels = imread(shot)[:, :, :3]
    lead = (abs(pixels - [0x1F / 255, 0x6F / 255, 0xEB / 255]).sum(axis=2) < 0.1).sum()
    oracle = (abs(pixels - [0x1A / 255, 0x7F / 255, 0x5A / 255]).sum(axis=2) < 0.1).sum()
    assert lead > 300  # the curves of Plausible
    assert oracle > 300  # and of the oracle
