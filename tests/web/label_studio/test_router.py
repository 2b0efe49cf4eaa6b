"""Recorded requests of Label Studio, sent to a service over HTTP as Label Studio sends them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.services import Opened, served
from tests.support.wait import END
from tests.web.label_studio.recorded import CONFIG, payload, webhook

TOKEN = "s3cret"  # noqa: S105
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PASSWORD = {"Authorization": f"Basic {b64encode(f'any:{TOKEN}'.encode()).decode()}"}
NEW = {"n": "new", "age": 61.0, "town": "Rome"}


@pytest.fixture
def remote(folder: Path) -> Iterator[tuple[Opened, httpx.Client]]:
    with (
        served(folder, TOKEN) as (here, url),
        httpx.Client(base_url=f"{url}/label-studio", timeout=END, trust_env=False) as client,
    ):
        yield here, client


@pytest.fixture
def client(remote: tuple[Opened, httpx.Client]) -> httpx.Client:
    return remote[1]


def test_a_project_is_connected(client: httpx.Client) -> None:
    assert client.get("/health", headers=PASSWORD).json()["status"] == "UP"
    assert client.get("/", headers=PASSWORD).json()["status"] == "UP"
    answer = client.post("/setup", json=payload("setup"), headers=PASSWORD)
    assert answer.status_code == 200
    assert answer.json()["model_version"].startswith("tamis@")


def test_a_project_without_a_label_is_refused_in_one_sentence(client: httpx.Client) -> None:
    sent = payload("setup") | {"schema": "<View/>"}
    answer = client.post("/setup", json=sent, headers=PASSWORD)
    assert answer.status_code == 422
    assert "<Choices>" in answer.json()["error"]


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer wrong",
        "Basic !",
        f"Basic {b64encode(TOKEN.encode()).decode()}",
        f"Basic {b64encode(b'any:wrong').decode()}",
        f"Basic {b64encode(bytes([255])).decode()}",
    ],
)
def test_a_wrong_token_is_refused_as_label_studio_expects(
    client: httpx.Client, authorization: str
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    for answer in (
        client.get("/health", headers=headers),
        client.post("/webhook", json=payload("created"), headers=headers),
    ):
        assert answer.status_code == 401


def test_tasks_are_predicted_the_most_suspicious_first(client: httpx.Client) -> None:
    labels = ["yes", "no", "yes"]
    data = [{"age": 80.0, "town": "Rome", "y": label} for label in labels]
    tasks = [{"id": at, "data": row} for at, row in enumerate(data)]
    sent = payload("predict") | {"tasks": tasks, "label_config": CONFIG}
    right, wrong, same = client.post("/predict", json=sent, headers=PASSWORD).json()["results"]
    assert wrong["score"] < 0.5 < right["score"] == same["score"]
    assert wrong["result"][0]["value"] == {"choices": ["yes"]}


def test_annotations_are_trained_on(remote: tuple[Opened, httpx.Client]) -> None:
    here, client = remote
    seen = []
    for name, label in (("created", "no"), ("updated", "yes"), ("deleted", "")):
        answer = client.post("/webhook", json=webhook(name, label, **NEW), headers=BEARER)
        assert answer.status_code == 202
        assert answer.json() == {"accepted": 1}
        here.train()
        seen.append(here.held().get("new"))
    assert seen == ["no", "yes", None]
    assert client.post("/webhook", json=payload("tasks_created"), headers=BEARER).json() == {
        "accepted": 0
    }


def test_a_deletion_is_understood_after_a_restart(folder: Path) -> None:
    for name, label in (("created", "no"), ("deleted", None)):
        with served(folder) as (here, url):
            httpx.post(
                f"{url}/label-studio/webhook", json=webhook(name, **NEW), trust_env=False
            ).raise_for_status()
            here.train()
            assert here.held().get("new") == label


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"x"', '{"action": 1}'])
def test_what_is_no_webhook_is_refused(client: httpx.Client, content: str) -> None:
    headers = BEARER | {"Content-Type": "application/json"}
    answer = client.post("/webhook", content=content, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"].endswith(".")


def test_a_label_that_is_no_class_is_refused(client: httpx.Client) -> None:
    sent = webhook("created", "perhaps", n="r0")
    answer = client.post("/webhook", json=sent, headers=BEARER)
    assert answer.status_code == 422
    assert "perhaps" in answer.json()["error"]
