"""axe-core finds no fault with any page: light and dark, on a desktop and on a phone."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import RunMetadata, write_metadata
from tamis.runs.confusion import ConfusionCounts, write_test_counts
from tamis.streams import digits
from tests.support.chromium import Chromium, Tab
from tests.support.sample_run import make_hostile
from tests.support.table_run import make_table_run

pytestmark = pytest.mark.slow
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def axe() -> str:
    return (files("axe_core_python") / "axe.min.js").read_text()


def faults(tab: Tab, axe: str) -> list[str]:
    """Run axe in the page, past its policy, which allows no script of others."""
    tab.run(f"{axe}; 0")
    found = tab.run(f"axe.run(document, {{ runOnly: {json.dumps(RULES)} }})")
    assert found["passes"]
    return [
        f"{fault['id']}: {fault['help']}: {node['html'][:120]}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the demo on the first digits alone."""
    data = digits()
    few = replace(data, inputs=data.inputs[:200], labels=data.labels[:200])
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.lab.demo.digits", lambda: few)
        assert main(["demo", "--out", str(out)]) == 0
    return out / "index.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_demo_has_no_fault(
    browser: Chromium, axe: str, demo: Path, width: int, scheme: str
) -> None:
    tab = browser.open(demo.as_uri(), width, 900, scheme)
    tab.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    tab.run("document.querySelector('.area').focus()")
    tab.press("End")
    tab.wait("!document.querySelector('.tip').hidden")
    assert faults(tab, axe) == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.troubles() == []
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "kind",
    ["report", "compare", "watch", "hostile", "table", "table report", "young", "young report"],
)
def test_no_page_has_a_fault(
    browser: Chromium, axe: str, folder: Path, tmp_path: Path, serve, kind: str, width: int, scheme
) -> None:
    if kind.startswith("table"):
        folder = make_table_run(tmp_path / "table", columns=60)
        write_test_counts(folder, ConfusionCounts.of([("a", "a"), ("a", "b")] * 9, "test.csv"))
    if kind.startswith("young"):
        folder = tmp_path / "young"
        folder.mkdir()
        write_metadata(folder, RunMetadata("rows", ("a", "b"), slots=900))
    if kind.endswith("report"):
        main(["report", str(folder), "--out", str(tmp_path / "page.html")])
    elif kind == "compare":
        main(["compare", str(folder), str(folder), "--out", str(tmp_path / "page.html")])
    elif kind == "hostile":
        folder = make_hostile(tmp_path / "hostile")
    live = kind in ("watch", "hostile", "table", "young")
    url = serve(folder).url if live else (tmp_path / "page.html").as_uri()
    tab = browser.open(url, width, 900, scheme)
    if kind == "table":
        tab.wait("document.querySelector('#row details.rest')")
        tab.run("document.querySelector('#row details.rest > summary').click()")
        tab.wait("document.querySelector('#neighbours details.rest[open]')")
    elif kind in ("watch", "hostile"):
        tab.wait("document.querySelector('#curves svg')")
    elif kind == "young":
        tab.wait("document.querySelector('#current').innerText.startsWith('No suspects yet.')")
    if live:
        tab.wait("document.body.dataset.ready")
    if live and kind != "young":
        tab.press("s")
        tab.wait("document.querySelector('#news').innerText.includes('skip')")
        tab.press("o")
        tab.wait("!document.querySelector('#others').hidden")
    assert faults(tab, axe) == []
    tab.close()


CONTROLS = """[...document.querySelectorAll('a, button, input, select, summary, [tabindex]')]
    .filter(one => one.checkVisibility() && !one.disabled)"""


def test_all_can_be_reached_by_tab(browser: Chromium, folder: Path, serve) -> None:
    tab = browser.open(serve(folder).url)
    tab.wait("document.body.dataset.ready && document.querySelector('#curves svg')")
    tab.press("o")
    tab.wait("!document.querySelector('#others').hidden")
    tab.run("window.reached = new Set()")
    tab.run("addEventListener('focusin', event => window.reached.add(event.target))")
    controls = tab.run(f"{CONTROLS}.length")
    assert controls > 60 + 20  # cards, and all else
    tab.run("document.querySelector('nav a').focus()")
    for _ in range(controls):
        tab.press("Tab")
    missed = f"{CONTROLS}.filter(one => !window.reached.has(one)).map(one => one.outerHTML)"
    assert tab.run(missed) == []
    tab.close()
