"""The review of a table in a browser: all columns as written, what differs, the decision."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tamis.runs import Decision, Decisions, Run, Suspect, read_lines, write_suspects
from tamis.web.row_columns import LONGEST_LISTED, MOST_LISTED, cells_of, listed
from tamis.web.run_page import render_run
from tests.support.chromium import Chromium
from tests.support.sample_run import BAD
from tests.support.table_run import LONG, make_table_run

READY = "document.body.dataset.ready && document.querySelectorAll('#neighbours .card').length === 5"
NAMES = "[...document.querySelectorAll('#row dt')].map(term => term.textContent)"


def test_columns_that_differ_come_first() -> None:
    found = cells_of({"columns": {"a": "1", "b": None, "c": ""}, "differs": ["c", "no such"]})
    assert [(cell.name, cell.value, cell.differs) for cell in found] == [
        ("c", None, True), ("a", "1", False), ("b", None, False),
    ]  # fmt: skip
    assert cells_of({"columns": [1], "differs": 7}) == []


def test_a_list_of_many_has_few_columns_of_each() -> None:
    long = {"columns": {f"c{at}": "x" * 5000 for at in range(200)}, "differs": ["c199"]}
    short = listed(long)
    assert list(short["columns"])[:2] == ["c199", "c0"]
    assert len(short["columns"]) == MOST_LISTED
    assert {len(text) for text in short["columns"].values()} == {LONGEST_LISTED}
    assert (short["count"], short["cut"], short["differs"]) == (200, True, ["c199"])
    assert listed({"columns": {"a": None}})["cut"] is False
    assert listed({"image": "x"}) == {"image": "x"}


def test_the_report_has_all_columns_without_a_script(tmp_path: Path) -> None:
    page = render_run(Run(make_table_run(tmp_path / "run", columns=30)))
    assert page.count("24 more columns") == 5
    assert "90.000,00 €" in page
    assert "measure 25 <span" in page  # the last, and marked: it is among the first
    assert page.count('<i class="soft">missing</i>') == 5
    assert "Probability of stayed" in page
    assert LONG in page
    assert page.count("<script") == 1  # of charts


@pytest.mark.slow
def test_a_suspect_has_all_its_columns_as_they_were_written(
    browser: Chromium, tmp_path: Path, serve
) -> None:
    tab = browser.open(serve(make_table_run(tmp_path / "run", columns=200)).url)
    tab.wait(READY)
    tab.wait(f"{NAMES}.length === 200")  # the list has fewer; the rest is requested
    names = tab.run(NAMES)
    assert names[:3] == ["income differs", "measure 195 differs", "joined"]
    assert tab.run("document.querySelectorAll('#row .differs').length") == 2
    row = tab.text("#row")
    assert "90.000,00 €" in row
    assert "01.02.2020" in row
    assert "missing" in row
    assert "measure 100" not in row  # folded
    assert "186 more columns" in row
    tab.run("document.querySelector('#row details.rest > summary').click()")
    tab.wait("document.querySelector('#row').innerText.includes('measure 100')")
    tab.wait("[...document.querySelectorAll('#neighbours details.rest')].every(rest => rest.open)")
    long = "document.querySelector('#row details.long')"
    assert not tab.run(f"{long}.innerText.includes({LONG[:-1]!r})")
    tab.run(f"{long}.querySelector('summary').click()")
    tab.wait(f"{long}.innerText.includes({LONG[:-1]!r})")
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    bars = "[...document.querySelectorAll('#row .shares li')].map(entry => entry.innerText)"
    assert [text.split() for text in tab.run(bars)] == [
        ["stayed", "0.900"], ["left", "0.080"], ["unsure", "0.020"],
    ]  # fmt: skip
    near = tab.text("#neighbours .card")
    assert near.startswith("stayed")
    assert near.index("income") < near.index("joined")  # in the order of the suspect
    assert "1.300,50 €" in near
    assert tab.troubles() == []
    tab.close()


@pytest.mark.slow
def test_on_a_phone_the_decision_is_on_the_first_screen(
    browser: Chromium, tmp_path: Path, serve
) -> None:
    folder = make_table_run(tmp_path / "run", columns=200)
    tab = browser.open(serve(folder).url, 390, 844)
    tab.wait(READY)
    seen = (
        "(element => { const box = element.getBoundingClientRect(); return box.top >= 0 && "
        "box.bottom <= 844 && box.left >= 0 && box.right <= 390; })"
    )
    assert tab.run("scrollY") == 0
    words = f"[...document.querySelectorAll('#words [data-word]')].every({seen})"
    assert tab.run("document.querySelectorAll('#words [data-word]').length") == 6
    assert tab.run(words)
    assert tab.run(f"{seen}(document.querySelector('#current .labels'))")
    assert tab.run(f"{seen}(document.querySelector('#row .differs'))")
    tab.run("document.querySelector('#neighbours .card:last-child').scrollIntoView()")
    tab.wait(words)  # they stay in view while neighbours are read
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    tab.run("document.querySelector('[data-word=relabel]').click()")
    tab.wait("document.querySelector('#news').innerText.includes('relabelled stayed')")
    assert read_lines(folder / "decisions.jsonl")[0]["label"] == "stayed"
    tab.close()


@pytest.mark.slow
def test_what_a_reader_has_opened_stays_open(browser: Chromium, tmp_path: Path, serve) -> None:
    """Others decide, and the list is loaded again, while somebody reads a long text."""
    folder = make_table_run(tmp_path / "run", columns=60)
    tab = browser.open(serve(folder).url)
    tab.wait(READY)
    tab.wait(f"{NAMES}.length === 60")
    tab.run("document.querySelector('#row details.long > summary').click()")
    tab.run("document.querySelector('#neighbours details.long > summary').focus()")
    Decisions(folder / "decisions.jsonl").decide(Decision("C-3", "keep", None, "left"))
    tab.wait("document.querySelector('#count').innerText.includes('1 decided')")
    assert tab.run("document.querySelector('#row details.long').open")
    assert tab.run("document.querySelector('#neighbours').contains(document.activeElement)")
    assert tab.run(f"{NAMES}.length") == 60
    tab.press("ArrowRight")
    tab.wait("document.querySelector('#current p').innerText.startsWith('C-1,')")
    tab.wait("!document.querySelector('#row details.long').open")
    tab.close()


@pytest.mark.slow
def test_hostile_cells_are_text(browser: Chromium, tmp_path: Path, serve) -> None:
    folder = make_table_run(tmp_path / "run")
    columns = {BAD: BAD, "constructor": None, "__proto__": BAD, "long": BAD * 50, "n": ["<b>"]}
    preview = {"columns": columns, "differs": [BAD, "toString"]}
    write_suspects(
        folder, [Suspect("C-0", BAD, "stayed", 0.9, 0, 1, preview, {BAD: 0.7, "stayed": 0.3})]
    )
    tab = browser.open(serve(folder).url)
    tab.wait(READY)
    assert tab.run(NAMES) == [f"{BAD} differs", "constructor", "__proto__", "long", "n"]
    assert (
        tab.run("document.querySelectorAll('#review b b, #review script, #review img').length") == 0
    )
    assert BAD in tab.text("#row dd")
    assert tab.troubles() == []
    tab.close()
    assert "<img src=x" not in render_run(Run(folder))


def test_only_the_owner_reads_cells(tmp_path: Path) -> None:
    folder = make_table_run(tmp_path / "run")
    for name in ("suspects.jsonl", "neighbours.jsonl"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
