"""axe-core finds no fault with any page: light and dark, on a desktop and on a phone."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs.confusion import ConfusionCounts, write_test_counts
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("kind", ["report", "compare", "watch", "hostile", "table", "table report"])
def test_no_page_has_a_fault(
    browser: Chromium, axe: str, folder: Path, tmp_path: Path, serve, kind: str, width: int, scheme
) -> None:
    if kind.startswith("table"):
        folder = make_table_run(tmp_path / "table", columns=60)
        write_test_counts(folder, ConfusionCounts.of([("a", "a"), ("a", "b")] * 9, "test.csv"))
    if kind.endswith("report"):
        main(["report", str(folder), "--out", str(tmp_path / "page.html")])
    elif kind == "compare":
        main(["compare", str(folder), str(folder), "--out", str(tmp_path / "page.html")])
    elif kind == "hostile":
        folder = make_hostile(tmp_path / "hostile")
    live = kind in ("watch", "hostile", "table")
    url = serve(folder).url if live else (tmp_path / "page.html").as_uri()
    tab = browser.open(url, width, 900, scheme)
    if kind == "table":
        tab.wait("document.querySelector('#row details.rest')")
        tab.run("document.querySelector('#row details.rest > summary').click()")
        tab.wait("document.querySelector('#neighbours details.rest[open]')")
    elif live:
        tab.wait("document.querySelector('#curves svg')")
    if live:
        tab.wait("document.body.dataset.ready")
        tab.press("s")
        tab.wait("document.querySelector('#news').innerText.includes('skip')")
        tab.press("o")
        tab.wait("!document.querySelector('#others').hidden")
    assert faults(tab, axe) == []
    tab.close()


CONTROLS = """[...document.querySelectorAll('a, button, input, select, textarea, [tabindex]')]
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
