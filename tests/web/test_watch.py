"""The server: what it answers, whom it refuses, and that decisions are on disk at once."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tamis.runs import Decision, Decisions, Run, Suspect, add_line, read_lines, write_suspects
from tamis.web.access import Access, is_loopback
from tamis.web.review_api import ReviewAPI
from tamis.web.server import Server
from tests.support.review_client import Client
from tests.support.wait import END, wait_until

Serve = Callable[..., Server]


@pytest.fixture
def client(folder: Path, serve: Serve) -> Client:
    return Client(serve(folder).server_port)


def first_ids(folder: Path, count: int = 3) -> list[str]:
    return [line["id"] for line in read_lines(folder / "suspects.jsonl")[:count]]


def test_a_page_of_suspects(client: Client, folder: Path) -> None:
    lines = read_lines(folder / "suspects.jsonl")
    found = client.get("/suspects")
    assert found["total"] == found["all"] == len(lines)
    assert [item["id"] for item in found["items"]] == [line["id"] for line in lines[:60]]
    assert found["items"][0]["preview"] == lines[0]["preview"]
    assert found["classes"] == [f"number {digit}" for digit in range(10)]
    second = client.get("/suspects", page=1)
    assert [item["id"] for item in second["items"]] == [line["id"] for line in lines[60:120]]
    assert client.get("/suspects", page=10_000)["items"] == []


def test_filters(client: Client, folder: Path) -> None:
    lines = read_lines(folder / "suspects.jsonl")
    given, suggested = lines[0]["given"], lines[0]["suggested"]
    found = client.get("/suspects", given=given, suggested=suggested, low=0.9, high=0.9999)
    wanted = [
        line["id"]
        for line in lines
        if (line["given"], line["suggested"]) == (given, suggested)
        and 0.9 <= line["score"] <= 0.9999
    ]
    assert found["total"] == len(wanted)
    assert [item["id"] for item in found["items"]] == wanted[:60]
    one, two = first_ids(folder, 2)
    client.post({"id": one, "decision": "keep"})
    client.post({"id": two, "decision": "skip"})
    ids = {
        which: [item["id"] for item in client.get("/suspects", which=which)["items"]]
        for which in ("open", "decided", "all")
    }
    assert ids["decided"] == [one]
    assert one not in ids["open"]
    assert ids["open"][0] == two
    assert ids["all"][:2] == [one, two]


def test_a_decision_is_on_disk_when_it_is_answered(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def sync(handle: int) -> None:
        fsync(handle)
        synced.append((folder / "decisions.jsonl").read_bytes())

    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", sync)
    name = first_ids(folder)[0]
    status, answer = client.post(
        {"id": name, "decision": "relabel", "label": "number 7", "author": "eve"}
    )
    assert status == 200
    assert synced == [(folder / "decisions.jsonl").read_bytes()]
    (line,) = read_lines(folder / "decisions.jsonl")
    assert answer["decision"] == line
    assert (line["id"], line["decision"], line["label"]) == (name, "relabel", "number 7")
    assert (line["author"], line["previous"]) == ("eve", None)
    assert line["row"] == read_lines(folder / "suspects.jsonl")[0]["row"]
    assert client.get("/suspects", which="all")["items"][0]["decision"] == line
    status, answer = client.post({"id": name, "decision": "undo"})
    assert answer["changed"] == ["relabel", "number 7"]
    assert answer["decision"]["author"] == "ann"
    assert client.get("/suspects", which="all")["items"][0]["decision"] is None


def test_others_who_decide_are_seen(client: Client, folder: Path) -> None:
    before = client.get("/state")["suspects"]
    name = first_ids(folder)[0]
    Decisions(folder / "decisions.jsonl").decide(Decision(name, "drop", author="bob"))
    assert client.get("/state")["suspects"] > before
    status, answer = client.post({"id": name, "decision": "keep"})
    assert status == 200
    assert answer["changed"] == ["drop", None]


def test_many_at_once_lose_nothing(client: Client, folder: Path) -> None:
    names = first_ids(folder, 20)

    def decide(who: int) -> None:
        for name in names:
            assert client.post({"id": name, "decision": "skip", "author": f"{who}"})[0] == 200

    threads = [threading.Thread(target=decide, args=(who,)) for who in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {(line["id"], line["author"]) for line in read_lines(folder / "decisions.jsonl")}
    assert found == {(name, f"{who}") for name in names for who in range(5)}


@pytest.mark.parametrize(
    "body",
    [
        {}, [], "x", b"{", b"[" * 60_000, {"id": 1, "decision": "keep"},
        {"id": "NAME", "decision": "explode"}, {"id": "no such", "decision": "keep"},
        {"id": "NAME", "decision": "relabel"}, {"id": "NAME", "decision": "relabel", "label": 3},
        {"id": "NAME", "decision": "relabel", "label": "no such class"},
        {"id": "x" * 5000, "decision": "keep"},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_is_refused_and_not_written(client: Client, folder: Path, body: Any) -> None:
    if isinstance(body, dict) and body.get("id") == "NAME":
        body = body | {"id": first_ids(folder)[0]}
    status, answer = client.post(body)
    assert status == 400
    assert answer["error"].endswith(".")
    assert not (folder / "decisions.jsonl").exists()


@pytest.mark.parametrize("query", ["page=x", "page=-1", "low=x", "low=nan", "which=some"])
def test_nonsense_is_not_looked_for(client: Client, query: str) -> None:
    assert client.ask(f"/suspects?{query}")[0] == 400


def test_neighbours_of_a_suspect(client: Client, folder: Path) -> None:
    name = first_ids(folder)[0]
    near = client.get("/neighbours", id=name)["neighbours"]
    assert len(near) == 5
    assert all(other["label"].startswith("number") for other in near)
    none = {"neighbours": [], "decision": None, "preview": {}}
    assert client.get("/neighbours", id="no such") == none


def test_the_page_follows_a_run(finished: Path, tmp_path: Path, serve: Serve) -> None:
    young = tmp_path / "young"
    young.mkdir()
    about = json.loads((finished / "about.json").read_text()) | {"ended": None}
    (young / "about.json").write_text(json.dumps(about))
    server = serve(young)
    client = Client(server.server_port)
    assert client.get("/state")["state"] == "at slot 0 of 300"
    assert "Nothing has been measured yet" in client.ask("/curves")[2]
    server.api._next = 0
    lines = (finished / "log.jsonl").read_text().splitlines(keepends=True)
    (young / "log.jsonl").write_text("".join(lines[:100]))
    state = client.get("/state")
    assert state["state"] == "at slot 100 of 300"
    assert state["curves"] > 0
    assert client.ask("/curves")[2].count('class="chart"') == 4
    shutil.copy(finished / "suspects.jsonl", young)
    assert client.get("/suspects")["total"] == len(read_lines(finished / "suspects.jsonl"))
    (young / "about.json").write_text(json.dumps(about | {"ended": "done"}))
    assert client.get("/state")["state"] == "finished"


LINES = ("log", "tracked", "alarms", "suspects", "neighbours", "decisions")


@pytest.mark.parametrize("name", ["about.json", *(f"{name}.jsonl" for name in LINES)])
def test_a_run_without_one_of_its_files_is_served(folder: Path, name: str) -> None:
    first = first_ids(folder)[0]
    add_line(folder / "alarms.jsonl", {"slot": 9, "kind": "noise", "before": 0.9, "after": 0.5})
    Decisions(folder / "decisions.jsonl").decide(Decision(first, "keep"))
    (folder / name).unlink()
    api = ReviewAPI(Run(folder))
    assert "<h1>run</h1>" in api.page()
    assert api.state()["state"] in ("finished", "300 slots", "at slot 0 of 300")
    assert api.suspects({"which": "all"})["total"] > 0
    assert len(api.neighbours(first)["neighbours"]) == (0 if name == "neighbours.jsonl" else 5)
    assert "tile" in api.tiles()
    assert api.table().startswith("id,given")


def test_files_that_end_in_half_a_line_are_served(folder: Path) -> None:
    """All at once, each without the end of its last line, which is left out."""
    first, last = first_ids(folder)[0], read_lines(folder / "suspects.jsonl")[-1]["id"]
    add_line(folder / "alarms.jsonl", {"slot": 9, "kind": "noise", "before": 0.9, "after": 0.5})
    add_line(folder / "alarms.jsonl", {"slot": 8, "kind": "noise", "before": 0.9, "after": 0.5})
    Decisions(folder / "decisions.jsonl").decide(Decision(first, "keep"))
    Decisions(folder / "decisions.jsonl").decide(Decision(last, "keep"))
    counts = {}
    for name in LINES:
        path = folder / f"{name}.jsonl"
        counts[name] = len(read_lines(path))
        path.write_bytes(path.read_bytes()[:-9])
    api = ReviewAPI(Run(folder))
    found = api.suspects({"which": "all"})
    assert (found["total"], found["decided"]) == (counts["suspects"] - 1, 1)
    assert len(api.neighbours(first)["neighbours"]) == 5
    assert "<svg" in api.curves()
    history = api.run.estimates
    assert len(history.points) == counts["tracked"] - 1
    assert [alarm.slot for alarm in history.alarms] == [9]
    assert api.numbers("purity")


def test_plots_are_not_drawn_for_every_line(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.web.review_api.REDRAWN", 3600.0)
    first = client.ask("/curves")[2]
    line = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
    add_line(folder / "log.jsonl", line | {"slot": line["slot"] + 1, "purity": 0.0})
    assert client.ask("/curves")[2] == first


def test_numbers_behind_plots(client: Client) -> None:
    page = client.ask("/curves")[2]
    for name in ("accuracy", "purity", "clean_ratio", "speed", "by_class", "confusion"):
        assert f'href="/numbers/{name}.csv"' in page
        status, headers, text = client.ask(f"/numbers/{name}.csv")
        assert status == 200
        assert headers["Content-Type"].startswith("text/csv")
        assert len(text.splitlines()) > 2
    assert client.ask("/suspects.csv")[2].startswith("id,given,suggested,score")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/decisions.jsonl", "/../about.json", "/%2e%2e/about.json",
        "/numbers/..%2f.csv", "/numbers/../../about.json", "/page.css/../../run_page.py",
        "/templates/run.html",
    ],
)  # fmt: skip
def test_no_file_is_served_by_its_path(client: Client, path: str) -> None:
    assert client.ask(path)[0] == 404


PATHS = (
    "/", "/page.css", "/review.css", "/review.js", "/charts.js", "/tiles", "/curves",
    "/suspects.csv", "/numbers/purity.csv", "/state", "/suspects", "/neighbours?id=x",
)  # fmt: skip


def test_headers_are_strict(client: Client, folder: Path, serve: Serve) -> None:
    """On every answer: a page, a decision, a refusal for each reason, a token that is taken."""
    body = {"id": first_ids(folder)[0], "decision": "keep"}
    ours = {"Origin": f"http://{client.host}", "X_Tamis": "review"}
    kind = {"Content_Type": "application/json"}
    guarded = Client(serve(folder, "a-secret").server_port)
    answers = [(200, client.ask(path)) for path in PATHS]
    answers += [
        (200, client.ask("/decisions", "POST", body, **ours, **kind)),
        (400, client.ask("/decisions", "POST", {}, **ours, **kind)),
        (400, client.ask("/suspects?page=x")),
        (403, client.ask("/decisions", "POST", body)),
        (404, client.ask("/nothing")),
        (404, client.ask("/nothing", "POST", body, **ours, **kind)),
        (411, client.ask("/decisions", "POST", **{"Content-Length": None})),
        (413, client.ask("/decisions", "POST", **{"Content-Length": "70000"})),
        (421, client.ask("/", Host="evil.example")),
        (421, client.ask("/decisions", "POST", body, Host="evil.example")),
        (303, guarded.ask("/?token=a-secret")),
        (403, guarded.ask("/?token=wrong")),
        (403, guarded.ask("/decisions", "POST", body)),
    ]
    (folder / "decisions.jsonl").unlink()
    (folder / "decisions.jsonl").mkdir()  # as of a disk that fails
    answers.append((507, client.ask("/decisions", "POST", body, **ours, **kind)))
    for status, (found, headers, _) in answers:
        assert found == status
        assert_strict(headers)


def assert_strict(headers: dict[str, str]) -> None:
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert headers["Server"].strip() == "tamis"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "", None, "a@localhost:PORT"],
)
def test_names_of_others_are_not_answered(client: Client, host: str | None) -> None:
    host = host.replace("PORT", str(client.port)) if host else host
    for path in ("/", "/suspects", "/review.js"):
        assert client.ask(path, Host=host)[0] == 421
    status, _ = client.post({"id": "a", "decision": "keep"}, Host=host)
    assert status == 421
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert client.ask("/", Host=f"{name}:{client.port}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"X_Tamis": None},
        {"Content_Type": "text/plain"},
        {"Content_Type": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_nobody_elses_page_may_decide(client: Client, folder: Path, headers: dict) -> None:
    body = {"id": first_ids(folder)[0], "decision": "keep"}
    assert client.post(body, **headers)[0] == 403
    assert not (folder / "decisions.jsonl").exists()
    assert client.post(body, Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize(
    ("length", "status"),
    [(None, 411), ("x", 400), ("-1", 400), ("1" * 5000, 400), (str(2**40), 413), ("70000", 413)],
    ids=["none", "letters", "negative", "5,000 digits", "2**40", "70,000"],
)
def test_what_is_too_long_is_not_read(client: Client, length: str | None, status: int) -> None:
    assert client.post({"id": "a"}, **{"Content-Length": length})[0] == status
    assert client.ask("/state", **{"Content-Length": length})[0] == (status if length else 200)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"])
def test_other_methods_are_none(client: Client, method: str) -> None:
    status, headers, _ = client.ask("/decisions", method)
    assert status == 501
    assert_strict(headers)
    assert client.ask("/decisions", method, Host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1 x", 400),
        ("GET /" + "x" * 70_000 + " HTTP/1.1", 414),
        ("GET / HTTP/9.9", 505),
        ("GET /", 421),
    ],
    ids=["words", "too long", "version", "HTTP/0.9"],
)
def test_what_is_not_http_is_answered_with_strict_headers(
    client: Client, head: str, status: int
) -> None:
    first, *lines = client.send(f"{head}\r\n\r\n").splitlines()
    assert int(first.split()[1]) == status
    assert_strict(dict(line.split(": ", 1) for line in lines if ": " in line))


def test_the_host_is_checked_before_a_body_is_waited_for(
    client: Client, folder: Path, serve: Serve
) -> None:
    head = "POST /decisions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n"
    assert client.send(f"{head}\r\n").startswith("HTTP/1.1 421 ")
    assert client.send(f"{head}Expect: 100-continue\r\n\r\n").startswith("HTTP/1.1 421 ")
    guarded = Client(serve(folder, "a-secret").server_port)
    for path in ("/", "/?token=a-secret", "/nothing"):  # and before the token, and the path
        status, headers, _ = guarded.ask(path, Host="evil.example")
        assert status == 421
        assert "Set-Cookie" not in headers
    two = f"GET / HTTP/1.1\r\nHost: {client.host}\r\nHost: evil.example\r\n\r\n"
    assert client.send(two).startswith("HTTP/1.1 421 ")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_body_is_not_read_as_another_request(client: Client, method: str) -> None:
    inner = f"GET /state HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\n\r\n"
    head = f"{method} /nothing HTTP/1.1\r\nHost: {client.host}\r\n"
    for length in (f"Content-Length: {len(inner)}", "Transfer-Encoding: chunked"):
        answers = client.send(f"{head}{length}\r\nConnection: close\r\n\r\n{inner}")
        assert answers.count("HTTP/1.1 ") == 1
    both = f"{head}Content-Length: 0\r\nContent-Length: {len(inner)}\r\n\r\n{inner}"
    assert client.send(both).count("HTTP/1.1 ") == 1


def test_a_body_of_a_get_leaves_the_connection_usable(client: Client) -> None:
    head = f"GET /nothing HTTP/1.1\r\nHost: {client.host}\r\n"
    answers = client.send(f"{head}Content-Length: 5\r\n\r\nhello{head}Connection: close\r\n\r\n")
    assert answers.count("HTTP/1.1 404 ") == 2


def test_connections_are_bounded(client: Client) -> None:
    open_ones = []
    for _ in range(64):
        one = socket.create_connection(("127.0.0.1", client.port), END)
        # An answer shows that the server has taken the connection.
        one.sendall(f"GET /page.css HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode())
        assert one.recv(12) == b"HTTP/1.1 200"
        open_ones.append(one)
    status, headers, _ = client.ask("/state")
    assert status == 503
    assert_strict(headers)
    for one in open_ones:
        one.close()
    wait_until(lambda: client.ask("/state")[0] == 200, what="a free connection")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
def test_what_holds_rows_is_for_the_owner_only(client: Client, folder: Path) -> None:
    names = first_ids(folder, 1)
    assert client.post({"id": names[0], "decision": "keep"})[0] == 200
    for name in ("decisions.jsonl", "suspects.jsonl", "neighbours.jsonl", "suspects.csv"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name


def test_a_token_opens_once_then_a_cookie(folder: Path, serve: Serve) -> None:
    server = serve(folder, "a-secret")
    client = Client(server.server_port)
    assert server.url.endswith("/?token=a-secret")
    for path in ("/", "/review.js", "/suspects", "/?token=wrong", "/suspects?token=a-secret"):
        assert client.ask(path)[0] == 403
    body = {"id": first_ids(folder)[0], "decision": "keep"}
    assert client.post(body)[0] == 403
    status, headers, _ = client.ask("/?token=a-secret")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    pair = cookie.split(";")[0]
    assert client.ask("/", Cookie=pair)[0] == 200
    assert client.post(body, Cookie=pair)[0] == 200
    for wrong in ("", "x", pair + "x", pair.replace("secret", "sécret"), "=;;=", "a\x01=b"):
        assert client.ask("/", Cookie=wrong.encode("utf-8", "replace").decode("latin-1"))[0] == 403


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return given == token

    monkeypatch.setattr("hmac.compare_digest", compare)
    access = Access("0.0.0.0", 80, "token")  # noqa: S104
    assert access.knows(None, "token")
    assert not access.knows(None, "tokem")
    assert compared[0] == (b"token", b"token")
    assert compared[1] == (b"tokem", b"token")


def test_who_is_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))  # noqa: S104


def test_opened_wider_it_answers_to_addresses_and_its_own_name() -> None:
    access = Access("0.0.0.0", 80, "token")  # noqa: S104
    assert access.answers_to("10.0.0.7")
    assert access.answers_to("[fe80::1]:80")
    assert not access.answers_to("evil.example")
    assert not Access("127.0.0.1", 80, None).answers_to("10.0.0.7")


def watch(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "tamis.cli", "watch", str(folder), "--port", "0", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_command_listens_on_this_machine_only(folder: Path) -> None:
    process = watch(folder)
    try:
        url = process.stdout.readline().split()[-1]
        port = int(url.removeprefix("http://127.0.0.1:").removesuffix("/"))
        with socket.create_connection(("127.0.0.1", port), END):
            pass
        with pytest.raises(OSError, match="refused"):  # as any address but that one
            socket.create_connection(("127.0.0.2", port), END)
    finally:
        process.send_signal(2)
        process.communicate(timeout=END)


@pytest.mark.slow
def test_the_command_prints_the_token_where_it_listens_wider(folder: Path) -> None:
    process = watch(folder, "--host", "0.0.0.0")  # noqa: S104
    try:
        line = process.stdout.readline()
        url = line.split()[-1]
        assert url.startswith("http://0.0.0.0:")
        port, token = url.removeprefix("http://0.0.0.0:").split("/?token=")
        assert len(token) > 40
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=END)
        connection.request("GET", "/")
        assert connection.getresponse().status == 403
        connection.close()
        connection.request("GET", f"/?token={quote(token)}")
        assert connection.getresponse().status == 303
        connection.close()
    finally:
        process.send_signal(2)
        out, errors = process.communicate(timeout=END)
    assert process.returncode == 0
    assert token not in out + errors  # printed once


def test_a_port_that_is_taken_costs_one_line(folder: Path, serve: Serve, capsys) -> None:
    from tamis.cli.main import main

    server = serve(folder)
    assert main(["watch", str(folder), "--port", str(server.server_port)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_fifty_thousand_are_as_easy_as_fifty(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "log.jsonl").write_text("")
    write_suspects(
        tmp_path,
        (
            Suspect(f"{n}", f"c{n % 10}", f"c{n % 7}", 1 - n / 200_000, n, n, {"text": "x" * 400})
            for n in range(50_000)
        ),
    )
    client = Client(serve(tmp_path).server_port)
    assert client.get("/suspects")["total"] == 50_000
    for page in (0, 400, 833):
        found = client.get("/suspects", page=page)["items"]
        last = min(50_000, 60 * page + 60)
        assert [item["id"] for item in found] == [str(n) for n in range(60 * page, last)]
    for page in (0, 40, 83):
        found = client.get("/suspects", page=page, given="c3")
        assert found["total"] == 5000
        wanted = [str(n) for n in range(3, 50_000, 10)][60 * page : 60 * page + 60]
        assert [item["id"] for item in found["items"]] == wanted
        assert all(item["preview"] == {"text": "x" * 400} for item in found["items"])
