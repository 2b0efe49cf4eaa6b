"""The review as a person does it: in a real browser, by keyboard, in two tabs at once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from tamis import Growing, Naive, Samples, Trainer
from tamis.review import Corrections, NeighbourIndex, preview_image
from tamis.runs import Decisions, Suspect, add_line, read_lines, write_suspects
from tamis.web.server import Server
from tests.support.chromium import Chromium, Tab
from tests.support.sample_run import BAD, CLASSES, make_hostile
from tests.support.wait import wait_until

pytestmark = pytest.mark.slow
Serve = Callable[..., Server]
CARDS = "[...document.querySelectorAll('#cards .card')].map(card => card.innerText)"
CURRENT = "document.querySelector('#current p').innerText"


@pytest.fixture
def open_tab(browser: Chromium, serve: Serve):
    tabs: list[Tab] = []

    def begin(folder: Path, server: Server | None = None) -> Tab:
        tab = browser.open((server or serve(folder)).url)
        tab.wait(
            "document.body.dataset.ready && document.querySelector('#given').options.length > 1"
        )
        tabs.append(tab)
        return tab

    yield begin
    for tab in tabs:
        tab.close()


def ids(folder: Path) -> list[str]:
    return [line["id"] for line in read_lines(folder / "suspects.jsonl")]


def made(folder: Path) -> list[dict]:
    return read_lines(folder / "decisions.jsonl")


def decide(tab: Tab, key: str, name: str) -> None:
    tab.wait(f"{CURRENT}.startsWith({json.dumps(name + ',')})")
    tab.press(key)
    tab.wait(f"document.querySelector('#news').innerText.includes({json.dumps(name)})")


def test_by_keyboard_and_still_there_after_a_reload(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    names = ids(folder)
    lines = read_lines(folder / "suspects.jsonl")
    for key, name in zip("rkd3s", names, strict=False):
        decide(tab, key, name)
    assert [(line["id"], line["decision"], line["label"]) for line in made(folder)] == [
        (names[0], "relabel", lines[0]["suggested"]),
        (names[1], "keep", None),
        (names[2], "drop", None),
        (names[3], "relabel", CLASSES[3]),
        (names[4], "skip", None),
    ]
    tab.reload()
    tab.wait("document.body.dataset.ready")
    assert "4 decided" in tab.text("#count")
    assert names[4] in tab.run(CARDS)[0]  # skipped, and so still open
    tab.set("which", "decided")
    tab.wait("document.querySelectorAll('#cards .card').length === 4")
    assert f"relabelled {lines[0]['suggested']}" in tab.run(CARDS)[0]
    assert tab.troubles() == []


def test_undo_goes_back_step_by_step(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    first, second = ids(folder)[:2]
    decide(tab, "k", first)
    decide(tab, "d", second)
    tab.press("u")
    tab.wait(f"document.querySelector('#news').innerText === 'Undone: {second}.'")
    tab.press("u")
    tab.wait(f"document.querySelector('#news').innerText === 'Undone: {first}.'")
    tab.wait(f"{CURRENT}.startsWith('{first},')")
    tab.press("u")
    tab.wait("document.querySelector('#news').innerText.startsWith('There is nothing to undo')")
    assert len(Decisions(folder / "decisions.jsonl")) == 0
    assert len(made(folder)) == 4


def test_keys_pressed_fast_are_decisions_about_one_after_another(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    for _ in range(8):
        tab.press("k")
    wait_until(lambda: len(made(folder)) == 8)
    assert [line["id"] for line in made(folder)] == ids(folder)[:8]


def test_any_other_class(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    name = ids(folder)[0]
    tab.press("o")
    tab.wait("document.activeElement === document.querySelector('#class')")
    tab.run("document.querySelector('#class').value = 'number 8'")
    tab.press("Enter")
    tab.wait(f"document.querySelector('#news').innerText.includes({json.dumps(name)})")
    assert made(folder)[0]["label"] == "number 8"
    assert tab.run("document.activeElement.id") == "panel"


def test_buttons_do_what_keys_do(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    tab.run("document.querySelector('[data-word=drop]').click()")
    tab.wait("document.querySelector('#news').innerText.includes('drop')")
    assert made(folder)[0]["decision"] == "drop"


ELSEWHERE = (
    "#class", "nav a", "#cards .card", "#after", "#download", "#author", "body", "#low",
    "#given", "#suggested", "#which",
)  # fmt: skip
"""Where a key is not a decision: within the panel in the list of classes, and outside of it."""


def test_letters_typed_elsewhere_decide_nothing(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    first, second = ids(folder)[:2]
    tab.press("o")
    for where in ELSEWHERE:
        tab.run("document.activeElement.blur()")
        tab.run(f"document.querySelector({json.dumps(where)}).focus()")
        focused = f"document.activeElement === document.querySelector({json.dumps(where)})"
        assert tab.run(focused), where
        for key in ("k", "r", "d", "s", "u", "o", "3", "ArrowRight", "ArrowLeft"):
            tab.press(key)
        assert tab.run(focused), where
        assert tab.text("#news") == "", where  # not even that there is nothing to undo
    assert tab.run("document.querySelector('#author').value") == "krdsuo3ann"
    for name, value in (("given", ""), ("suggested", ""), ("low", "0.5"), ("which", "open")):
        tab.set(name, value)  # typing in a filter has set it
    tab.run("document.querySelector('#panel').focus()")
    decide(tab, "k", first)  # decisions are sent in turn: any before would be there
    tab.run("document.querySelector('[data-word=drop]').focus()")
    decide(tab, "k", second)  # a button of the panel is part of it
    assert [(line["decision"], line["id"]) for line in made(folder)] == [
        ("keep", first), ("keep", second),
    ]  # fmt: skip


def test_filters_by_class_pair_and_score(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    lines = read_lines(folder / "suspects.jsonl")
    given, suggested = lines[0]["given"], lines[0]["suggested"]
    tab.set("given", given)
    tab.set("suggested", suggested)
    tab.set("low", "0.95")
    wanted = [
        line["id"]
        for line in lines
        if (line["given"], line["suggested"]) == (given, suggested) and line["score"] >= 0.95
    ]
    tab.wait(f"document.querySelector('#count').innerText.startsWith('{len(wanted)} of')")
    cards = tab.run(CARDS)
    assert len(cards) == len(wanted[:60])
    assert all(name in text for name, text in zip(wanted, cards, strict=False))


def test_neighbours_are_displayed(open_tab, folder: Path) -> None:
    """Those of the suspect in the panel, whichever it is."""
    tab, near = open_tab(folder), NeighbourIndex(folder)
    cards = "[...document.querySelectorAll('#neighbours .card')]"
    displayed = f"JSON.stringify({cards}.map(card => card.innerText.split(/\\s*\\n\\s*/)))"
    different = set()
    for name in ids(folder)[:4]:
        tab.wait(f"{CURRENT}.startsWith({json.dumps(name + ',')})")
        expected = [
            [other.label, f"{other.id} \u00b7 {other.similarity:.2f}"] for other in near.of(name)
        ]
        assert len(expected) == 5
        tab.wait(f"{displayed} === JSON.stringify({json.dumps(expected)})")
        images = tab.run(f"{cards}.map(card => card.querySelector('img').src)")
        assert images == [
            f"data:image/png;base64,{other.preview['image']}" for other in near.of(name)
        ]
        different.add(json.dumps(expected))
        tab.press("ArrowRight")
    assert len(different) == 4


def test_two_tabs_at_once_lose_nothing(open_tab, folder: Path, serve: Serve) -> None:
    server = serve(folder)
    one, two = open_tab(folder, server), open_tab(folder, server)
    names = ids(folder)
    one.press("k")
    two.press("d")  # about the same suspect, before either has seen the other
    for tab in (one, two):
        tab.wait("document.querySelector('#news').innerText !== ''")
    news = [tab.text("#news") for tab in (one, two)]
    assert sum("Somebody else had decided" in text for text in news) == 1
    lines = made(folder)
    assert {(line["id"], line["decision"]) for line in lines} == {
        (names[0], "keep"), (names[0], "drop"),
    }  # fmt: skip
    for tab, key in ((one, "k"), (two, "d")):
        for _ in range(5):
            tab.press(key)
    wait_until(lambda: len(made(folder)) == 12)
    lines = made(folder)
    one.run("document.querySelector('#panel').focus()")
    for tab in (one, two):  # each refreshes, and shows what the other did
        tab.set("which", "decided")
        settled = len({line["id"] for line in lines})
        tab.wait(f"document.querySelectorAll('#cards .card').length === {settled}")


def test_a_tab_shows_what_was_decided_elsewhere(open_tab, folder: Path, serve: Serve) -> None:
    server = serve(folder)
    one, two = open_tab(folder, server), open_tab(folder, server)
    name = ids(folder)[0]
    decide(one, "k", name)
    two.wait("document.querySelector('#count').innerText.includes('1 decided')")
    two.wait("document.querySelector('#current').innerText.includes('keep by ann')")
    assert name in two.text("#current p")  # nothing goes from under the hands of who looks at it
    two.press("d")
    two.wait("document.querySelector('#news').innerText.includes('drop')")
    assert "Somebody else" not in two.text("#news")  # that was known
    two.wait("!document.querySelector('#current').innerText.includes('keep by ann')")


def test_what_is_decided_here_is_trained_on(open_tab, folder: Path) -> None:
    lines = read_lines(folder / "suspects.jsonl")
    rows = torch.tensor([line["row"] for line in lines])
    labels = torch.tensor([CLASSES.index(line["given"]) for line in lines])
    samples = Samples(torch.randn(len(rows), 4), labels, rows, torch.zeros_like(rows))
    model = torch.nn.Linear(4, 10)
    rule = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, rule, Naive(), Growing(5000), k=8)
    corrections = Corrections(folder / "decisions.jsonl", CLASSES)
    trainer.step(corrections.correct(samples, [line["id"] for line in lines]))
    tab = open_tab(folder)
    decide(tab, "r", lines[0]["id"])
    decide(tab, "d", lines[1]["id"])
    assert corrections.apply(trainer) == 2
    held = trainer.buffer.pool()
    assert int(held.labels[0]) == CLASSES.index(lines[0]["suggested"])
    assert lines[1]["row"] not in held.ids
    picked = {number for _ in range(50) for number in trainer.step().ids.tolist()}
    assert lines[1]["row"] not in picked


def test_the_page_updates_by_itself(open_tab, folder: Path) -> None:
    log = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    about = json.loads((folder / "about.json").read_text()) | {"ended": None}
    (folder / "about.json").write_text(json.dumps(about))
    (folder / "log.jsonl").write_text("".join(log[:150]))
    tab = open_tab(folder)
    assert tab.text("#state") == "at slot 150 of 300"
    tab.wait("document.querySelectorAll('#curves .chart').length === 6")
    curves = tab.run("document.querySelector('#curves').innerHTML")
    with (folder / "log.jsonl").open("a") as file:
        file.writelines(log[150:])
    tab.wait("document.querySelector('#state').innerText === 'at slot 300 of 300'")
    tab.wait("document.querySelector('#tiles').innerText.includes('300 slots')")
    tab.wait(f"document.querySelector('#curves').innerHTML !== {json.dumps(curves)}")
    assert tab.troubles() == []


def test_a_server_that_is_gone_is_reported(open_tab, folder: Path) -> None:
    tab = open_tab(folder)
    rates = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.call("Network.emulateNetworkConditions", offline=True, **rates)
    tab.press("k")
    tab.wait("!document.querySelector('#offline').hidden")
    assert "Not saved" in tab.text("#news")
    assert not (folder / "decisions.jsonl").exists()
    tab.call("Network.emulateNetworkConditions", offline=False, **rates)
    tab.wait("document.querySelector('#offline').hidden")
    tab.press("ArrowLeft")  # the one that is not decided after all
    decide(tab, "k", ids(folder)[0])
    wait_until(lambda: [line["id"] for line in made(folder)] == ids(folder)[:1])


def test_of_fifty_thousand_suspects_a_page_is_loaded(
    browser: Chromium, tmp_path: Path, serve: Serve
) -> None:
    generator = torch.Generator().manual_seed(0)
    pictures = [preview_image(torch.rand(28, 28, generator=generator)) for _ in range(50)]
    write_suspects(
        tmp_path,
        (
            Suspect(f"row {n}", f"c{n % 10}", f"c{n % 7}", 1 - n / 200_000, n, n, pictures[n % 50])
            for n in range(50_000)
        ),
    )
    (tmp_path / "log.jsonl").write_text("")
    server = serve(tmp_path)
    loaded = "performance.getEntriesByType('resource').filter(e => e.name.includes('/suspects?'))"
    tab = browser.open(server.url)
    tab.wait("document.body.dataset.ready")
    assert len(tab.run(CARDS)) == 60
    assert "50,000 of 50,000" in tab.text("#count")
    tab.run("(async () => { state.page = 800; await later(() => load(false)); })()")
    sizes = tab.run(f"{loaded}.map(e => e.decodedBodySize)")
    assert len(sizes) == 2
    assert max(sizes) < 200_000, sizes  # bytes of 60 suspects and their pictures
    assert "page 801 of 834" in tab.text("#page")
    cards = tab.run(CARDS)
    assert len(cards) == 60
    assert all(f"row {number} " in text for number, text in enumerate(cards, 48_000))
    tab.close()


def test_hostile_text_is_displayed_and_never_run(open_tab, tmp_path: Path) -> None:
    name = BAD.replace("/", "_")
    folder = make_hostile(tmp_path / name)
    tab = open_tab(folder)
    assert tab.text("h1") == name
    assert name in tab.run("document.title")
    tab.set("which", "all")
    tab.wait("document.querySelectorAll('#cards .card').length === 4")
    tab.wait("document.querySelectorAll('#neighbours .card').length === 1")
    tab.wait("document.querySelector('#curves svg')")
    text = tab.run("document.body.textContent")
    assert text.count(BAD) > 8
    assert tab.run("document.querySelectorAll('[onerror], main script').length") == 0
    options = tab.run("[...document.querySelector('#given').options].map(o => o.value)")
    assert BAD in options
    tab.set("given", BAD)
    tab.wait("document.querySelectorAll('#cards .card').length === 1")
    tab.press("r")
    tab.wait("document.querySelector('#news').innerText.includes('relabelled ok')")
    assert made(folder)[-1]["id"] == BAD
    troubles = [text for text in tab.troubles() if "ERR_INVALID_URL" not in text]
    assert troubles == []  # no dialog, no refusal by policy, no error


class EmptyPage(BaseHTTPRequestHandler):
    """A site of somebody else, whose policy allows everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_another_site_cannot_decide(
    browser: Chromium, folder: Path, serve: Serve, other_site: str
) -> None:
    """A page of another origin sends what it likes: the browser and `Access` keep it out."""
    server = serve(folder)
    tab = browser.open(other_site)
    name = ids(folder)[0]
    body = json.dumps(json.dumps({"id": name, "decision": "drop"}))
    statuses = []
    targets = [
        f"http://{host}:{server.server_port}/decisions" for host in ("localhost", "127.0.0.1")
    ]
    for target in targets:
        for headers in ("{}", "{'Content-Type': 'text/plain'}", "{'X-Tamis': 'review'}"):
            for mode in ("no-cors", "cors"):
                statuses.append(
                    tab.run(
                        f"fetch({json.dumps(target)}, {{ method: 'POST', mode: '{mode}',"
                        f" headers: {headers}, body: {body} }})"
                        ".then(answer => answer.type, () => 'refused')"
                    )
                )
    assert set(statuses) == {"refused"}
    assert set(targets) <= set(tab.requested())
    assert not (folder / "decisions.jsonl").exists()
    tab.close()


def test_a_token_in_the_address_leaves_it(browser: Chromium, folder: Path, serve: Serve) -> None:
    server = serve(folder, "secret-token")
    tab = browser.open(server.url)
    tab.wait("document.body.dataset.ready")
    assert "token" not in tab.run("location.href")
    assert tab.run("document.cookie") == ""  # no script can read it
    tab.press("k")
    tab.wait("document.querySelector('#news').innerText.includes('keep')")
    tab.close()


def test_suspects_that_change_under_the_reviewer(open_tab, folder: Path) -> None:
    """A running trainer ranks again while somebody reviews: the current one stays."""
    tab = open_tab(folder)
    lines = read_lines(folder / "suspects.jsonl")
    stay = lines[5]
    for _ in range(5):
        tab.press("ArrowRight")
    tab.wait(f"{CURRENT}.startsWith('{stay['id']},')")
    found = [Suspect.from_json(line) for line in reversed(lines[:20])]
    thread = threading.Thread(target=write_suspects, args=(folder, found))
    thread.start()
    thread.join()
    tab.wait("document.querySelector('#count').innerText.startsWith('20 of 20')")
    assert tab.run(CURRENT).startswith(f"{stay['id']},")
    tab.press("k")
    tab.wait("document.querySelector('#news').innerText.includes('keep')")
    assert made(folder)[0]["id"] == stay["id"]


def test_a_full_disk_is_reported(open_tab, folder: Path, monkeypatch) -> None:
    tab = open_tab(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tamis.runs.decisions.add_line", full)
    tab.press("k")
    tab.wait("document.querySelector('#news').innerText.startsWith('Not saved: No space left')")
    monkeypatch.undo()
    tab.press("k")
    tab.wait("document.querySelector('#news').innerText.includes('keep')")
    assert re.search(r"\d+ of \d+ suspects", tab.text("#count"))
    assert add_line is not full
