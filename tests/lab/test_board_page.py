"""The board's page: who stands where, what is bold, what it states of whom, and no network."""

from __future__ import annotations

import csv
import html
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tamis.lab.board import Result
from tamis.lab.pages.board_findings import all_tables, findings
from tamis.lab.pages.board_page import write_board
from tamis.lab.pages.board_tables import Table, as_tables, summarise
from tamis.lab.pages.markdown import as_bytes, put_between, share

OPEN, CLOSE = "<!-- board -->", "<!-- /board -->"
CHROMIUM = shutil.which("chromium")
HOSTILE = "<script>alert(1)</script> | *a* [b](c) $x$ {{ 7 * 7 }}"


def runs_of(
    method: str,
    raw: tuple[float, ...],
    ema: float = math.nan,
    ratio: float = 0.5,
    noise: str = "symmetric",
    lost: int = 0,
) -> list[Result]:
    """One run a seed, with these raw accuracies."""
    same = (0.75, 0.5, 2.0, 5.0, 1.0, 0, 1234, lost, math.nan, "2 cores, torch")
    return [
        Result(method, "digits", noise, ratio, 100, seed, accuracy, ema, *same)
        for seed, accuracy in enumerate(raw)
    ]


def only_table(results: list[Result]) -> Table:
    (table,) = as_tables(summarise(results))
    return table


def order(table: Table) -> list[str]:
    return [row.method for row in table.rows]


@pytest.fixture
def results() -> list[Result]:
    return [
        *runs_of("naive", (0.60, 0.62)),
        *runs_of("OGRS", (0.79, 0.81), ema=0.70),
        *runs_of("ITLM", (0.50, 0.52), lost=1),
        *runs_of("oracle", (0.90, 0.92)),
        *runs_of(HOSTILE, (0.10, 0.12), lost=2),
    ]


def test_a_summary_is_mean_and_deviation_over_seeds() -> None:
    (summary,) = summarise(runs_of("OGRS", (0.7, 0.8, 0.9), ema=0.85, lost=3))
    assert summary.accuracy_mean == pytest.approx(0.8)
    assert summary.accuracy_std == pytest.approx(0.1)  # of a sample
    assert (summary.accuracy_ema_mean, summary.accuracy_ema_std) == pytest.approx((0.85, 0))
    assert (summary.runs, summary.lost, summary.state) == (3, 3, 1234)
    assert summary.better.mean == pytest.approx(0.85)
    (alone,) = summarise(runs_of("ITLM", (0.7,)))
    assert math.isnan(alone.accuracy_std)
    assert (alone.better.mean, alone.error, alone.side_information) == (0.7, 0, "clean ratio")


def test_the_best_mean_over_clean_ratios_comes_first_by_the_better_weights() -> None:
    table = only_table(
        [
            *runs_of("naive", (0.9,), ratio=0.9),
            *runs_of("naive", (0.2,), ratio=0.3),
            *runs_of("OGRS", (0.5,), ema=0.8, ratio=0.9),  # second, were it not for the average
            *runs_of("OGRS", (0.5,), ratio=0.3),
            *runs_of("ITLM", (0.99,), ratio=0.9),  # half of its cells are missing
        ]
    )
    assert order(table) == ["OGRS", "naive", "ITLM"]
    assert table.clean_ratios == (0.9, 0.3)
    assert table.rows[2].cells[1] is None


def test_bold_is_what_keeps_up_with_the_best_without_side_information() -> None:
    table = only_table(
        [
            *runs_of("oracle", (0.99, 0.99)),  # knows the labels: sets no bar
            *runs_of("OGRS", (0.78, 0.82)),  # the bar: 0.80, standard error 0.02
            *runs_of("ELR", (0.77, 0.77)),
            *runs_of("ITLM", (0.761, 0.761)),  # knows the ratio; above the bar
            *runs_of("naive", (0.759, 0.759)),
            *runs_of("RHO, average", (0.4, 1.1)),  # 0.75, however it swings
        ]
    )
    bold = {row.method: row.bold for row in table.rows}
    assert [name for name, (marked,) in bold.items() if marked] == ["oracle", "OGRS", "ELR", "ITLM"]


def test_nothing_is_bold_where_all_have_side_information() -> None:
    assert only_table(runs_of("ITLM", (0.9,))).rows[0].bold == (False,)


def test_it_names_who_dropped_a_class(results: list[Result]) -> None:
    found = findings(only_table(results))
    assert f"These dropped a class: ITLM (2 of 2 runs); {HOSTILE} (2 of 2 runs)." in found
    assert "No method dropped a class." in findings(only_table(results[:4]))


def test_it_names_who_beats_naive_nowhere(results: list[Result]) -> None:
    better_elsewhere = [
        *runs_of("naive", (0.5,), noise="pair"),
        *runs_of("ITLM", (0.6,), noise="pair"),
    ]
    tables = as_tables(summarise(results + better_elsewhere))
    first, second = (" ".join(findings(table)) for table in tables)
    assert f"These beat naive at no clean ratio here: {HOSTILE}; ITLM." in first
    assert "beat naive" not in second
    assert all_tables(tables) == f"These beat naive in no cell of the complete board: {HOSTILE}."
    assert all_tables(tables[1:]).startswith("Every method beats naive")
    assert "nothing to beat" in all_tables(as_tables(summarise(runs_of("ITLM", (0.6,)))))


def test_it_names_what_is_missing(results: list[Result]) -> None:
    assert not any("missing" in line for line in findings(only_table(results)))
    assert any("OGRS (1 of 2)" in line for line in findings(only_table([*results[:3]])))


def test_the_numbers_are_written(results: list[Result], tmp_path: Path) -> None:
    write_board(results, tmp_path)
    with (tmp_path / "board.csv").open(newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert rows["OGRS"]["accuracy_mean"] == "0.8000"
    assert rows["OGRS"]["accuracy_std"] == "0.0141"
    assert rows["naive"]["accuracy_ema_mean"] == ""
    assert (rows["ITLM"]["side_information"], rows["ITLM"]["lost"]) == ("clean ratio", "2")
    assert HOSTILE in rows
    assert (tmp_path / "board.png").stat().st_size > 5000


def test_the_page_loads_nothing_and_runs_nothing_of_others(
    results: list[Result], tmp_path: Path
) -> None:
    write_board(results, tmp_path)
    page = (tmp_path / "board.html").read_text()
    loads = re.findall(r"(?:src|href)=[\"']([^\"']+)|url\(([^)]+)\)|@import", page)
    assert [a[:26] for a, _ in loads] == ["data:image/svg+xml;base64,"]
    assert page.count("<script>") == 1
    assert html.escape(HOSTILE) in page
    assert "49" not in re.findall(r'<td data-value="&lt;script.*?</td>', page)[0]
    assert page.count("dropped a class</span>") == 2
    assert ".800 / .700 ±.014" in page
    assert "width: 80.0%" in page
    assert "width: 70.0%" in page


def test_markdown_is_text_that_links_to_methods(results: list[Result], tmp_path: Path) -> None:
    methods = tmp_path / "docs" / "methods"
    methods.mkdir(parents=True)
    (methods / "ogrs.md").touch()
    page = tmp_path / "docs" / "deep" / "board.md"
    write_board(results, tmp_path / "run", page)
    lines = page.read_text().splitlines()
    assert lines[:3] == ["# The board", "", OPEN]
    assert lines[-1] == CLOSE
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[2] == (
        "| [oracle](../methods/ogrs.md) | **.910 / - ±.014** | every right label | 0/2 |"
    )
    assert rows[3] == "| [OGRS](../methods/ogrs.md) | **.800 / .700 ±.014** | nothing | 0/2 |"
    costs = "| [OGRS](../methods/ogrs.md) | 5.0 | 1.0 | 2.0 | 0 | 1.2 kB | .750 | .500 |"
    assert costs in rows
    assert rows[5].startswith("| ITLM | .510 / - ±.014 |")  # its page is not there
    assert r"\<script\>alert(1)\</script\> \| \*a\* \[b\](c)" in rows[6]
    assert str(tmp_path) not in page.read_text()
    assert "Made on 2 cores, torch. " in page.read_text()


def test_only_what_lies_between_the_marks_changes(results: list[Result], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before, after = b"# Mine\r\n\r\nwords ", b"\r\nmore \xc3\xa9 words"
    page.write_bytes(before + f"{OPEN}\nstale{CLOSE}".encode() + after)
    for _ in range(2):  # the second finds what the first has written
        write_board(results, tmp_path / "run", page)
    written = page.read_bytes()
    assert written.startswith(before + OPEN.encode())
    assert written.endswith(CLOSE.encode() + after)
    assert b"stale" not in written
    assert written.count(b"### digits, symmetric noise") == 1


@pytest.mark.parametrize("page", ["", OPEN, CLOSE, f"{CLOSE}{OPEN}", f"{OPEN}{CLOSE}{OPEN}{CLOSE}"])
def test_a_page_without_two_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="each once"):
        put_between(page, "board")


def test_numbers_are_short() -> None:
    assert [share(value) for value in (0.5, 1.0, 0.0, math.nan)] == [".500", "1.000", ".000", "-"]
    assert [as_bytes(count) for count in (0, 999, 1000, 2_500_000)] == [
        "0",
        "999 B",
        "1.0 kB",
        "2.5 MB",
    ]


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="chromium is not on this machine")
def test_a_click_sorts(results: list[Result], tmp_path: Path) -> None:
    partial = runs_of("ELR", (0.7,), ratio=0.3)  # at 0.5 it has nothing
    write_board([*results[:-2], *partial], tmp_path)
    page = tmp_path / "board.html"
    program = """<script>
    const orders = [0, 0, 1, 1].map(place => {
      document.querySelectorAll("th button")[place].click();
      return [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].dataset.value);
    });
    document.body.textContent = "orders" + JSON.stringify(orders) + "end";
    </script></body>"""
    page.write_text(page.read_text().replace("</body>", program))
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --dump-dom "
        "--disable-background-networking --disable-component-update --disable-sync"
    )
    done = subprocess.run(
        [str(CHROMIUM), *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        check=False,
    )
    found = re.search(r"orders(.*)end", done.stdout.decode())
    assert found, done.stderr.decode()[-500:]
    assert json.loads(found[1]) == [
        ["ELR", "ITLM", "naive", "OGRS", "oracle"],
        ["oracle", "OGRS", "naive", "ITLM", "ELR"],
        ["oracle", "OGRS", "naive", "ITLM", "ELR"],
        ["ITLM", "naive", "OGRS", "oracle", "ELR"],  # what is not known stays last
    ]
