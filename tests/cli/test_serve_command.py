"""tamis serve as a process: how it starts, what it prints, and how it stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

import tamis
from tamis.cli.main import main
from tests.support.services import ServeProcess, make_rows, opened, train_table, unlabelled
from tests.support.wait import END, wait_until

ROWS = make_rows(40, seed=3)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_table(tmp_path_factory.mktemp("trained"), "--capacity", "1000")


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


def test_it_trains_while_it_serves(folder: Path) -> None:
    served = ServeProcess(folder)
    with served.client() as client:
        wait_until(lambda: client.get("/health/ready").status_code == 200)
        body: dict[str, Any] = {"rows": [unlabelled(row) for row in ROWS]}
        found = client.post("/predict", json=body).json()["predictions"]
        for each, row in zip(found, ROWS, strict=True):
            label = {"id": each["id"], "label": row["y"], "annotator": "ann"}
            assert client.post("/labels", json=label).status_code == 202
        wait_until(lambda: metric(client, "tamis_compared_total") == len(ROWS))
        assert metric(client, "tamis_slots_total") > 25
        assert metric(client, "tamis_rows_waiting") == 0
        slots = client.post("/predict", json={"rows": body["rows"][:1]}).json()["slots"]
        assert slots > 25
    assert served.send(signal.SIGTERM) == 143
    assert "Stopped after" in served.printed.read_text()
    about = json.loads((folder / "about.json").read_text())
    assert about["ended"] == "stopped"
    assert len(tamis.load(folder).predict(body["rows"])) == len(ROWS)
    with opened(folder) as here:
        held = here.held()
        for each, row in zip(found, ROWS, strict=True):
            assert held[each["id"]] == row["y"]


def metric(client: httpx.Client, name: str) -> float:
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
    return float(lines.get(name, 0))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_saves_and_stops(folder: Path, number: signal.Signals) -> None:
    """Requests that came before are answered, and what was accepted is there at the next start."""
    served = ServeProcess(folder)
    answers: list[str] = []

    def ask() -> None:
        with served.client() as client:
            while True:
                try:
                    answer = client.post("/rows", json={"rows": ROWS[:1]})
                except httpx.HTTPError:  # connections are refused
                    return
                if answer.status_code != 202:
                    assert answer.status_code == 503
                    return
                answers.extend(answer.json()["ids"])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 20)
    assert served.send(number) == 128 + number
    for thread in threads:
        thread.join(END)
    with opened(folder) as here:
        here.train()
        assert set(answers) <= set(here.held())


def test_a_second_process_is_refused(folder: Path, capsys: Any) -> None:
    served = ServeProcess(folder)
    assert main(["serve", str(folder), "--port", "0"]) == 2
    assert "Another process trains in" in capsys.readouterr().err
    assert served.send(signal.SIGTERM) == 143


def test_a_port_that_is_taken_is_one_sentence(folder: Path, capsys: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in error
    assert error.count("\n") == 1


def test_another_host_needs_a_token(folder: Path) -> None:
    served = ServeProcess(folder, "--host", "0.0.0.0")  # noqa: S104
    text = served.printed.read_text()
    token = text.split("Bearer ")[1].split()[0]
    assert len(token) > 40
    url = f"http://127.0.0.1:{text.split('0.0.0.0:')[1].split('/')[0]}"
    body = {"id": "a", "label": "yes"}
    assert httpx.post(f"{url}/labels", json=body).status_code == 401
    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx.post(f"{url}/labels", json=body, headers=bearer).status_code == 202
    assert served.send(signal.SIGTERM) == 143
