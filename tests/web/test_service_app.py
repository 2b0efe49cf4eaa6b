"""The HTTP API on loopback: what it answers, whom it refuses, and clients that misbehave."""

from __future__ import annotations

import base64
import io
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
import pytest

from tamis.cli.main import main
from tamis.web import gate, service_server
from tamis.web.service_server import listen
from tests.support.memory import resident
from tests.support.services import (
    Opened,
    make_rows,
    opened,
    served,
    train_table,
    unlabelled,
)
from tests.support.wait import END, wait_until

ROWS = make_rows(20, seed=2)
INPUTS = [unlabelled(row) for row in ROWS]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_table(tmp_path_factory.mktemp("trained"), "--capacity", "1000")


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


class Remote:
    """A service and a client of it."""

    def __init__(self, here: Opened, url: str) -> None:
        self.here, self.url = here, url
        self.port = int(url.rsplit(":", 1)[1])
        self.client = httpx.Client(base_url=url, timeout=END, trust_env=False)

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        answer = self.client.post(path, json=body)
        return answer.status_code, answer.json()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), END)


@pytest.fixture
def remote(folder: Path) -> Iterator[Remote]:
    with served(folder) as (here, url), Remote(here, url) as remote:
        yield remote


@pytest.fixture(scope="module")
def unchanged(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A service for all tests that only ask, or whose requests are refused."""
    copy = shutil.copytree(trained, tmp_path_factory.mktemp("unchanged") / "run")
    with served(copy) as (here, url), Remote(here, url) as remote:
        yield remote


def test_from_a_row_to_its_label(remote: Remote) -> None:
    numbers = list(range(200, 220))
    status, found = remote.post("/predict", {"rows": INPUTS, "ids": numbers})
    assert status == 200
    assert [each["id"] for each in found["predictions"]] == [str(n) for n in numbers]
    assert {each["class"] for each in found["predictions"]} <= {"no", "yes"}
    assert found["slots"] == 25
    given = {"id": 203, "label": "yes"}
    assert remote.post("/labels", given) == (202, {"accepted": 1, "ids": ["203"]})
    several = [{"id": str(200 + n), "label": ROWS[n]["y"]} for n in range(4, 10)]
    assert remote.post("/labels", {"labels": several})[1]["accepted"] == 6
    assert remote.client.delete("/labels/204").json() == {"accepted": 1, "ids": ["204"]}
    status, added = remote.post("/rows", {"rows": ROWS[:2], "ids": ["a/b c", "d"]})
    assert (status, added["ids"]) == (202, ["a/b c", "d"])
    assert remote.client.delete("/labels/a%2Fb%20c").json()["ids"] == ["a/b c"]
    remote.here.train()
    held = remote.here.held()
    assert held["203"] == "yes"
    assert {name: held.get(name) for name in ("204", "205", "d", "a/b c")} == {
        "204": None, "205": ROWS[5]["y"], "d": ROWS[1]["y"], "a/b c": None,
    }  # fmt: skip
    assert remote.post("/predict", {"rows": INPUTS[:1]})[1]["slots"] > 25


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("/predict", {}, 422, "rows: field required."),
        ("/predict", {"rows": 3}, 422, "rows: input should be a valid list."),
        ("/predict", {"rows": [3]}, 422, "rows.0: input should be a valid dictionary."),
        ("/predict", [], 422, "input should be a valid dictionary"),
        ("/predict", {"rows": []}, 422, "A request has 1 to 1000 rows, and this one 0."),
        ("/predict", {"rows": INPUTS[:2], "ids": ["a"]}, 422, "There are 1 ids for 2 rows."),
        ("/predict", {"rows": INPUTS[:1], "time": "x"}, 422, "time: input should be"),
        ("/labels", {"id": "a"}, 422, "label: field required."),
        ("/labels", {"id": "a", "label": "maybe"}, 422, "There is no class 'maybe'."),
        ("/labels", {"id": "a", "label": ["yes"]}, 422, "label"),
        ("/labels", {"labels": []}, 422, "A request has 1 to 1000 labels, and this one 0."),
        ("/rows", {"rows": INPUTS[:1]}, 422, "A label is the name of a class."),
        ("/nothing", {}, 405, "Method Not Allowed"),
        ("/health/live", {}, 405, "Method Not Allowed"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    unchanged: Remote, path: str, body: Any, status: int, why: str
) -> None:
    found, answer = unchanged.post(path, body)
    assert found == status
    assert why in answer["error"]
    assert "\n" not in answer["error"]
    assert unchanged.here.journal.end == 0


BAD_BODIES = [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"rows": [' + b"1," * 9, b"nonsense"]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:9].hex())
@pytest.mark.parametrize("path", ["/predict", "/labels", "/rows"])
def test_what_is_no_json_is_refused(unchanged: Remote, path: str, body: bytes) -> None:
    answer = unchanged.client.post(path, content=body, headers=JSON)
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == ["error"]


def test_odd_texts_are_answered(unchanged: Remote) -> None:
    """Such that cannot be written as UTF-8, and numbers that are none."""
    for text in (r'{"rows": [{"age": "\ud800", "town": "\ud800"}]}', '{"rows": [{"age": NaN}]}'):
        answer = unchanged.client.post("/predict", content=text, headers=JSON)
        assert answer.status_code == 422
        assert answer.json()["error"]
    answer = unchanged.client.post(
        "/labels", content=r'{"id": "\ud800", "label": "yes"}', headers=JSON
    )
    assert answer.status_code == 422


def test_unknown_classes_are_answered_with_the_classes(unchanged: Remote) -> None:
    _, answer = unchanged.post("/labels", {"id": "a", "label": "maybe"})
    assert answer["classes"] == ["no", "yes"]


def test_a_backlog_is_answered_with_when_to_try_again(folder: Path) -> None:
    with served(folder, most_unread=10) as (here, url), Remote(here, url) as remote:
        assert remote.post("/predict", {"rows": INPUTS[:8]})[0] == 200
        answer = remote.client.post("/predict", json={"rows": INPUTS[:8]})
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        here.train()
        assert remote.post("/predict", {"rows": INPUTS[:8]})[0] == 200


def test_a_full_disk_is_answered(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        status, answer = remote.post("/labels", {"id": "a", "label": "yes"})
    assert status == 507
    assert "No space left on device" in answer["error"]
    assert remote.post("/labels", {"id": "a", "label": "yes"})[0] == 202
    assert remote.here.journal.end == 1


def test_a_mistake_in_the_service_is_answered(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def broken(inputs: Any) -> None:
        raise ZeroDivisionError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(remote.here.service.model, "predict", broken)
        status, answer = remote.post("/predict", {"rows": INPUTS[:1]})
    assert (status, "secret" in answer["error"]) == (500, False)
    assert remote.post("/predict", {"rows": INPUTS[:1]})[0] == 200


def test_health_and_metrics(remote: Remote) -> None:
    assert remote.client.get("/health/live").json() == {"status": "live"}
    assert remote.client.get("/health/ready").json() == {"status": "ready"}
    remote.post("/predict", {"rows": INPUTS[:5], "ids": list("abcde")})
    remote.post("/labels", {"id": "a", "label": "yes"})
    remote.post("/labels", {"id": "a", "label": "maybe"})
    before = read_metrics(remote)
    assert before["tamis_journal_unread"] == 6
    remote.here.train()
    found = read_metrics(remote)
    assert found["tamis_rows_total"] == 5
    assert found["tamis_labels_total"] == 1
    assert found["tamis_journal_unread"] == 0
    assert found["tamis_rows_waiting"] == 4
    assert found["tamis_compared_total"] == 1
    assert found["tamis_slots_total"] == found["tamis_model_slots"] == 26
    assert 0 <= found["tamis_clean_ratio"] <= 1
    assert found['tamis_requests_total{path="/labels",status="422"}'] == 1
    assert found['tamis_request_seconds_count{path="/labels"}'] == 2
    assert found['tamis_request_seconds_bucket{path="/labels",le="+Inf"}'] == 2


def read_metrics(remote: Remote) -> dict[str, float]:
    """Read the text as Prometheus does: each sample after its type, of a kind it knows."""
    answer = remote.client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found, kinds = {}, {}
    for line in answer.text.splitlines():
        if line.startswith("# TYPE"):
            name, kind = line.split()[2:]
            kinds[name] = kind
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            base = name.partition("{")[0]
            if base.endswith(("_bucket", "_sum", "_count")):
                base = base.rpartition("_")[0]
            assert kinds[base] in ("counter", "gauge", "histogram")
            found[name] = float(value)
    return found


def test_when_it_ends_it_is_not_ready(remote: Remote) -> None:
    remote.here.service.__exit__()
    answer = remote.client.get("/health/ready")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert remote.post("/labels", {"id": "a", "label": "yes"})[0] == 503
    assert remote.client.get("/health/live").status_code == 200


def test_the_api_describes_itself(unchanged: Remote) -> None:
    found = unchanged.client.get("/openapi.json").json()
    assert {"/predict", "/rows", "/labels", "/labels/{row_id}", "/metrics"} <= set(found["paths"])
    page = unchanged.client.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    for path in found["paths"]:
        assert path in page.text
    assert "<script" not in page.text
    assert "http" not in page.text


PAGES = (
    "/", "/page.css", "/review.css", "/review.js", "/tiles", "/classes", "/curves", "/state",
    "/suspects", "/suspects.csv", "/neighbours?id=x", "/numbers/agreement.csv",
)  # fmt: skip


def test_the_review_page_is_the_same_server(remote: Remote) -> None:
    for path in PAGES[:-1]:
        assert remote.client.get(path).status_code == 200, path
    assert "review.js" in remote.client.get("/").text
    found = remote.client.get("/suspects", params={"which": "all"}).json()["items"]
    body = {"id": found[0]["id"], "decision": "relabel", "label": found[0]["suggested"]}
    assert remote.client.post("/decisions", json=body).status_code == 403
    ours = {"Origin": remote.url, "X-Tamis": "review"}
    assert remote.client.post("/decisions", json=body, headers=ours).status_code == 200
    remote.here.service.add(ROWS[:1])
    remote.here.train()
    assert remote.here.held()[found[0]["id"]] == found[0]["suggested"]


def test_headers_are_strict(unchanged: Remote) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nbad\r\n\r\n" % unchanged.port
    with unchanged.connect() as connection:
        connection.sendall(raw)
        head = connection.recv(2**16).decode()
    assert head.startswith("HTTP/1.1 400")
    answers = [unchanged.client.get(path).headers for path in ("/", "/metrics", "/nothing")]
    answers += [unchanged.client.post("/predict", json={}).headers]
    answers += [unchanged.client.get("/", headers={"Host": "evil.example"}).headers]
    answers += [httpx.Headers([line.split(": ", 1) for line in head.splitlines() if ": " in line])]
    for headers in answers:
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "tamis"
        assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:PORT", "127.0.0.1:1", ""])
def test_names_of_others_are_not_answered(unchanged: Remote, host: str) -> None:
    headers = {"Host": host.replace("PORT", str(unchanged.port))}
    for path in ("/", "/metrics", "/health/live"):
        assert unchanged.client.get(path, headers=headers).status_code == 421
    answer = unchanged.client.post("/labels", json={"id": "a", "label": "yes"}, headers=headers)
    assert answer.status_code == 421
    assert unchanged.here.journal.end == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": ""}, 415),
    ],
    ids=str,
)
def test_pages_of_other_sites_may_not_write(
    unchanged: Remote, headers: dict[str, str], status: int
) -> None:
    body = json.dumps({"id": "a", "label": "yes"})
    answer = unchanged.client.post("/labels", content=body, headers=JSON | headers)
    assert answer.status_code == status
    assert unchanged.here.journal.end == 0


def test_a_token_is_needed_for_all_but_health(folder: Path) -> None:
    with served(folder, "a-secret") as (here, url), Remote(here, url) as remote:
        body = {"id": "a", "label": "yes"}
        wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a-secret"}]
        wrong += [{"Authorization": "a-secret"}, {"Cookie": f"tamis-{remote.port}=x"}]
        for headers in wrong:
            answer = remote.client.post("/labels", json=body, headers=headers)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert remote.client.get("/metrics", headers=headers).status_code == 401
            assert remote.client.get("/", headers=headers).status_code == 403
        assert here.journal.end == 0
        assert remote.client.get("/health/ready").status_code == 200
        right = {"Authorization": "Bearer a-secret"}
        assert remote.client.post("/labels", json=body, headers=right).status_code == 202
        assert remote.client.get("/metrics", headers=right).status_code == 200
        answer = remote.client.get("/?token=a-secret")
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        assert remote.client.get("/").status_code == 200  # by the cookie


def test_a_body_of_10_megabytes_is_refused(remote: Remote) -> None:
    body = json.dumps({"rows": [{"age": 1, "town": "x" * 10_000_000}]})
    assert remote.client.post("/predict", content=body, headers=JSON).status_code == 413

    def pieces() -> Iterator[bytes]:  # of a length that is not known before
        for start in range(0, len(body), 2**16):
            yield body[start : start + 2**16].encode()

    answer = remote.client.post("/predict", content=pieces(), headers=JSON)
    assert answer.status_code == 413
    assert "at most" in answer.json()["error"]
    assert remote.post("/predict", {"rows": INPUTS[:1]})[0] == 200


def test_large_bodies_leave_memory_as_it_was(remote: Remote) -> None:
    body = json.dumps({"rows": [{"age": 1, "town": "x" * 10_000_000}]}).encode()

    def send() -> None:
        for _ in range(10):
            answer = httpx.post(f"{remote.url}/predict", content=body, headers=JSON, timeout=END)
            assert answer.status_code == 413

    send()
    before = resident()
    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert resident() - before < 100 * 2**20  # of 400 MB that came


def test_bodies_in_progress_are_bounded(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MOST_HELD", 2_000_000)
    head = (
        f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1900000\r\n\r\n"
    ).encode()
    with remote.connect() as one, remote.connect() as two:
        one.sendall(head + b"x" * 1_500_000)
        wait_until(lambda: remote.client.get("/health/live").status_code == 200)
        two.sendall(head + b"x" * 1_500_000)
        assert two.recv(2**16).startswith(b"HTTP/1.1 503")
    assert remote.post("/predict", {"rows": INPUTS[:1]})[0] == 200


@pytest.mark.parametrize("sent", [b"", b"POST /predict HT", b"GET / HTTP/1.1\r\nHost: x", "body"])
def test_slow_clients_are_hung_up_on(
    remote: Remote, sent: bytes | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, half a head, half a body: the connection is closed, and others are answered."""
    monkeypatch.setattr(service_server, "REQUEST_SECONDS", 0.5)
    if isinstance(sent, str):
        sent = (
            f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        ).encode()
    with remote.connect() as connection:
        connection.sendall(sent)
        assert remote.post("/predict", {"rows": INPUTS[:1]})[0] == 200
        with suppress(ConnectionResetError):
            assert connection.recv(2**16) == b""


def read_answer(connection: socket.socket) -> None:
    """Read an answer to its end; its head and body come together or one after the other."""
    answer = b""
    while b"live" not in answer:
        part = connection.recv(2**16)
        assert part, answer
        answer += part


def test_a_client_that_drips_is_hung_up_on(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a request alive, nor one after a first request."""
    monkeypatch.setattr(service_server, "REQUEST_SECONDS", 0.5)
    with remote.connect() as connection:
        first = f"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\n\r\n"
        connection.sendall(first.encode())
        read_answer(connection)

        def drip() -> bool:
            try:
                connection.sendall(b"G")
            except OSError:
                return True
            return False

        wait_until(drip)


def test_a_client_between_requests_is_not_hung_up_on(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_server, "REQUEST_SECONDS", 0.2)
    with remote.connect() as connection, remote.connect() as other:
        request = f"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1:{remote.port}\r\n\r\n".encode()
        connection.sendall(request)
        read_answer(connection)
        other.settimeout(END)
        assert other.recv(1) == b""  # that one sent nothing, for as long
        connection.sendall(request)
        assert connection.recv(2**16).startswith(b"HTTP/1.1 200")


def test_more_connections_than_allowed_are_refused(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_server, "MOST_CONNECTIONS", 5)
    assert remote.client.get("/health/live").status_code == 200  # its connection is open
    kept = [remote.connect() for _ in range(4)]
    with remote.connect() as connection:
        assert connection.recv(2**16).startswith(b"HTTP/1.1 503")
    for each in kept:
        each.close()
    wait_until(lambda: httpx.get(f"{remote.url}/health/live").status_code == 200)


def test_answers_are_not_held_back() -> None:
    """An answer has two parts; the second must not wait for a receipt of the first (Nagle)."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_who_connects_before_the_server_has_started_waits() -> None:
    """The address is printed first."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        pass


def test_many_clients_at_once(remote: Remote) -> None:
    """Each is answered for its own rows, and all rows are in the journal."""
    found: dict[str, str] = {}

    def ask(who: int) -> None:
        with httpx.Client(base_url=remote.url, timeout=END, trust_env=False) as client:
            for n in range(10):
                name = f"{who}-{n}"
                body = {"rows": [INPUTS[(who + n) % 20]], "ids": [name]}
                (each,) = client.post("/predict", json=body).json()["predictions"]
                found[each["id"]] = each["class"]

    threads = [threading.Thread(target=ask, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {str(n): each["class"] for n, each in enumerate(remote.here.service.predict(INPUTS))}
    assert len(found) == 80
    for name, chosen in found.items():
        who, n = map(int, name.split("-"))
        assert chosen == wanted[str((who + n) % 20)]
    assert remote.here.journal.end == 100


def test_pictures_come_with_their_rows_and_no_file_is_read(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pictures = tmp_path / "pictures"
    for name, level in (("dark", 60), ("light", 190)):
        (pictures / name).mkdir(parents=True)
        for n in range(12):
            pixels = (level + rng.normal(0, 20, (8, 8))).clip(0, 255).astype(np.uint8)
            image.fromarray(pixels).save(pictures / name / f"{n}.png")
    out = tmp_path / "run"
    assert main(["train", str(pictures), "--out", str(out), "--slots", "20"]) == 0
    file = pictures / "light" / "0.png"
    with opened(out) as here:
        (column,) = here.service.schema.inputs
        text = base64.b64encode(file.read_bytes()).decode()
        for cell in (text, f"data:image/png;base64,{text}"):
            (found,) = here.service.predict([{column.name: cell}])
            assert set(found["probabilities"]) == {"dark", "light"}
        for cell in (str(file), "/etc/passwd", {"path": str(file)}, "", io.BytesIO().getvalue()):
            with pytest.raises(Exception, match=r"Row 0|no picture|JSON serializable"):
                here.service.predict([{column.name: cell}])
        here.train()
        assert here.run.trainer.validator.rejects.total == 0
