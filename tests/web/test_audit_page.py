"""The audit in the page: a list of its own, the same keys, and what follows in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tamis.runs import AuditRow, Decision, Decisions, Run, read_lines, write_audit
from tamis.web.server import Server
from tests.support.chromium import Chromium
from tests.support.review_client import Client
from tests.support.sample_run import BAD, CLASSES
from tests.support.wait import wait_until

Serve = Callable[..., Server]
SIZE = 70
"""Rows of the sample: two pages."""
CURRENT = "document.querySelector('#current p').innerText"


@pytest.fixture
def sample(folder: Path) -> list[AuditRow]:
    """Put a sample into the folder: the first is a suspect, the others are not."""
    lines = read_lines(folder / "suspects.jsonl")
    first = AuditRow(lines[0]["id"], lines[0]["given"], lines[0]["row"], lines[0]["preview"])
    others = [AuditRow(f"row-{row}", CLASSES[row % 10], row, first.preview) for row in range(1, 70)]
    write_audit(folder, [first, *others])
    return [first, *others]


@pytest.fixture
def client(folder: Path, sample: list[AuditRow], serve: Serve) -> Client:
    return Client(serve(folder).server_port)


def made(folder: Path) -> list[tuple[str, str, str | None]]:
    lines = read_lines(folder / "decisions.jsonl")
    return [(line["id"], line["decision"], line["label"]) for line in lines]


def test_a_page_of_the_sample(client: Client, sample: list[AuditRow]) -> None:
    found = client.get("/audit")
    assert [item["id"] for item in found["items"]] == [row.id for row in sample[:60]]
    assert found["items"][0]["preview"] == sample[0].preview
    assert "suggested" not in found["items"][0]
    assert (found["total"], found["all"], found["decided"], found["text"]) == (SIZE, SIZE, 0, "")
    assert len(client.get("/audit", page=1)["items"]) == 10


def test_decisions_there_are_counted_and_others_are_not(
    client: Client, folder: Path, sample: list[AuditRow]
) -> None:
    suspect = read_lines(folder / "suspects.jsonl")[1]["id"]
    names = [row.id for row in sample]
    for name, action in [(suspect, "keep"), (names[1], "keep"), (names[2], "drop"),
                         (names[3], "skip"), (names[0], "keep")]:  # fmt: skip
        assert client.post({"id": name, "decision": action})[0] == 200
    found = client.get("/audit")
    assert found["decided"] == 3
    assert found["text"].startswith("2 of 3 audited labels are right: between ")
    assert found["items"][0]["id"] == names[3]  # skipped, so still open
    assert [item["id"] for item in client.get("/audit", which="decided")["items"]] == names[:3]
    line = read_lines(folder / "decisions.jsonl")[1]
    assert (line["given"], line["row"], line["suggested"]) == (sample[1].given, 1, None)
    client.post({"id": names[2], "decision": "undo"})
    assert client.get("/audit")["text"].startswith("2 of 2 audited labels are right")
    assert client.ask("/audit?which=some")[0] == 400


def test_a_run_without_a_sample(folder: Path, serve: Serve) -> None:
    client = Client(serve(folder).server_port)
    found = client.get("/audit")
    assert (found["items"], found["all"], found["text"]) == ([], 0, "")
    assert client.post({"id": "row-1", "decision": "keep"})[0] == 400
    before = client.get("/state")["suspects"]
    write_audit(folder, [AuditRow("row-1", CLASSES[1])])
    assert client.get("/state")["suspects"] > before
    assert client.post({"id": "row-1", "decision": "keep"})[0] == 200


@pytest.mark.slow
def test_a_sample_is_audited_by_keyboard(
    browser: Chromium, folder: Path, sample: list[AuditRow], serve: Serve
) -> None:
    tab = browser.open(serve(folder).url)
    tab.wait("document.body.dataset.ready && document.querySelector('#class').options.length > 1")
    tab.run("document.querySelector('[data-list=audit]').click()")
    tab.wait("document.querySelector('#count').innerText === '0 of 70 audited.'")
    assert tab.text("#current .labels") == sample[0].given  # nothing is suggested
    names = [row.id for row in sample]

    def press(key: str, name: str) -> None:
        tab.wait(f"{CURRENT}.startsWith({json.dumps(name + ',')})")
        tab.press(key)

    for key, name in zip("kkd7", names, strict=False):
        press(key, name)
    press("r", names[4])  # nothing is suggested: the class is chosen
    tab.wait("document.activeElement === document.querySelector('#class')")
    tab.run("document.querySelector('#class').value = 'number 8'")
    tab.press("Enter")
    press("u", names[5])
    wait_until(lambda: len(made(folder)) == 6)
    assert made(folder) == [
        (names[0], "keep", None),
        (names[1], "keep", None),
        (names[2], "drop", None),
        (names[3], "relabel", CLASSES[7]),
        (names[4], "relabel", "number 8"),
        (names[4], "undo", None),
    ]
    tab.wait("document.querySelector('#count').innerText.startsWith('4 of 70 audited. 2 of 4 ')")
    for name in names[4:]:
        press("k", name)
    tab.wait("document.querySelector('#count').innerText.startsWith('70 of 70 audited. 68 of 70 ')")
    run = Run(folder)
    assert run.audit.tally(run.decisions) == (68, 2, SIZE)
    tab.wait(f"{CURRENT}.startsWith('No row is left to audit')")
    tab.run("document.querySelector('[data-list=suspects]').click()")
    tab.wait(f"{CURRENT}.includes('score')")
    assert tab.troubles() == []
    tab.close()


@pytest.mark.slow
def test_hostile_rows_are_text(browser: Chromium, folder: Path, serve: Serve) -> None:
    write_audit(folder, [AuditRow(BAD, BAD, 1, {"columns": {BAD: BAD}})])
    Decisions(folder / "decisions.jsonl").decide(Decision(BAD, "skip", author=BAD))
    tab = browser.open(serve(folder).url)
    tab.wait("document.body.dataset.ready")
    tab.run("document.querySelector('[data-list=audit]').click()")
    tab.wait(f"document.querySelector('#current .labels').innerText === {json.dumps(BAD)}")
    assert tab.run("document.querySelectorAll('#review script, #review img').length") == 0
    assert tab.troubles() == []
    tab.close()
