"""Charts in a real browser: values by pointer and keys, a legend that hides, and no script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import EstimatePoint, RunMetadata, add_line, read_lines, write_metadata
from tests.support.chromium import Chromium, Tab

pytestmark = pytest.mark.slow
CHART = "document.querySelector('[data-name=accuracy]')"
TIP = f"{CHART}.querySelector('.tip')"


@pytest.fixture
def report(browser: Chromium, folder: Path):
    main(["report", str(folder)])
    tab = browser.open((folder / "report.html").as_uri(), 1280)
    yield tab
    assert tab.troubles() == []  # no refusal by the policy, no error
    tab.close()


def accuracies(folder: Path) -> list[tuple[int, float, float]]:
    lines = read_lines(folder / "log.jsonl")
    names = ("slot", "accuracy_ema", "accuracy")
    return [tuple(line[name] for name in names) for line in lines if line["accuracy"] is not None]


def point_at(tab: Tab, share: float) -> None:
    """Move the pointer to a share of the width of the chart of accuracy."""
    tab.run(f"{CHART}.scrollIntoView({{ block: 'center' }})")
    box = f"{CHART}.querySelector('svg.lines').getBoundingClientRect()"
    left, top, width, height = tab.run(f"(b => [b.left, b.top, b.width, b.height])({box})")
    x = left + min(share * width, width - 1)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=top + height / 2)


def test_the_pointer_reads_what_the_log_has(report: Tab, folder: Path) -> None:
    known = accuracies(folder)
    first, last = known[0][0], known[-1][0]
    for slot, averaged, raw in known:
        point_at(report, (slot - first) / (last - first))
        report.wait(f"{TIP}.innerText.startsWith('slot {slot}')")
        text = report.run(f"{TIP}.innerText")
        assert f"{averaged:.3f}" in text
        assert f"{raw:.3f}" in text
    report.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    report.wait(f"{TIP}.hidden")


def test_keys_read_values_and_a_status_repeats_them(report: Tab, folder: Path) -> None:
    known = accuracies(folder)
    report.run(f"{CHART}.querySelector('.area').focus()")
    spoken = f"{CHART}.querySelector('[role=status]').textContent"
    for key, at in (("End", -1), ("ArrowLeft", -2), ("ArrowRight", -1), ("Home", 0)):
        report.press(key)
        slot, averaged, raw = known[at]
        wanted = f"slot {slot}: averaged weights {averaged:.3f}; current weights {raw:.3f}"
        report.wait(f"{spoken} === {json.dumps(wanted)}")
    report.press("Escape")
    report.wait(f"{TIP}.hidden")


def test_the_legend_hides_a_line(report: Tab) -> None:
    lines = f"[...{CHART}.querySelectorAll('svg.lines g')].map(g => getComputedStyle(g).display)"
    button = f"{CHART}.querySelectorAll('.legend button')[1]"
    report.run(f"{button}.focus()")
    report.press("Enter")
    report.wait(f"{button}.getAttribute('aria-pressed') === 'false'")
    assert report.run(lines) == ["inline", "none"]
    point_at(report, 0.5)
    report.wait(f"!{TIP}.hidden")
    assert "current weights" not in report.run(f"{TIP}.innerText")
    report.run(f"{button}.click()")
    assert report.run(lines) == ["inline", "inline"]


def test_without_scripts_curves_and_last_values_are_there(browser: Chromium, folder: Path) -> None:
    main(["report", str(folder)])
    tab = browser.open("about:blank", 390)
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.call("Page.navigate", url=(folder / "report.html").as_uri())
    tab.wait("document.querySelectorAll('svg.lines polyline').length >= 10")
    assert tab.run("document.querySelectorAll('.legend button').length") == 0
    assert f"averaged weights {accuracies(folder)[-1][1]:.3f}" in tab.text(".legend")
    assert tab.run("document.querySelector('svg.lines').getBoundingClientRect().width") > 250
    tab.close()


def test_a_hidden_line_and_the_focus_stay_when_the_live_page_is_drawn_again(
    browser: Chromium, folder: Path, serve
) -> None:
    tab = browser.open(serve(folder).url, 1280)
    tab.wait(f"{CHART} && {CHART}.querySelector('.legend button')")
    tab.run(f"{CHART}.querySelector('.legend button').click()")
    before = tab.run("document.querySelector('#curves').innerHTML")
    line = read_lines(folder / "log.jsonl")[-1]
    add_line(folder / "log.jsonl", line | {"slot": line["slot"] + 1, "accuracy": 0.5})
    tab.wait(f"document.querySelector('#curves').innerHTML !== {json.dumps(before)}")
    tab.wait(f"document.activeElement === {CHART}.querySelector('.legend button')")
    assert tab.run("document.activeElement.getAttribute('aria-pressed')") == "false"
    assert tab.troubles() == []
    tab.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("classes", [2, 50])
def test_wrong_labels_by_class_are_read_cell_by_cell(
    browser: Chromium, tmp_path: Path, classes: int, width: int
) -> None:
    names = tuple(f"kind {at}" for at in range(classes))
    write_metadata(tmp_path, RunMetadata("rows", names))
    wrong = 0.2 / (classes - 1)
    rows = [[0.8 if a == b else wrong for b in range(classes)] for a in range(classes)]
    rows[0][1], rows[0][0] = 0.3, 0.7
    point = EstimatePoint(99, 0.8, 0.7, 0.9, confusion=tuple(map(tuple, rows)))
    add_line(tmp_path / "tracked.jsonl", point.to_json())
    (tmp_path / "log.jsonl").write_text("")
    main(["report", str(tmp_path)])
    tab = browser.open((tmp_path / "report.html").as_uri(), width)
    assert "30% of kind 0 are labelled kind 1" in tab.text("main")
    tab.run("document.querySelector('.heat-room').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    tab.wait("document.querySelector('.reading').innerText === '30% of kind 0 are labelled kind 1'")
    assert tab.run("document.documentElement.scrollWidth") <= width
    smallest = tab.run(
        "Math.min(...[...document.querySelectorAll('.heat td')]"
        ".map(cell => parseFloat(getComputedStyle(cell).fontSize)))"
    )
    assert smallest >= 10
    cut = (
        "[...document.querySelectorAll('.heat tbody td')].some(c => c.scrollWidth > c.clientWidth)"
    )
    assert not tab.run(cut)
    tab.close()
