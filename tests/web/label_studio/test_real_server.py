"""A real Label Studio on loopback: what is annotated there is trained on here."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tamis.cli.main import main
from tests.support.label_studio import ApiError, LabelStudio, chosen, missing
from tests.support.services import Opened, ServeProcess, opened, served
from tests.support.wait import wait_until
from tests.web.label_studio.recorded import CONFIG

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

TOKEN = "s3cret"  # noqa: S105
EVERY = {"selectedItems": {"all": True, "excluded": []}}
TASKS: list[dict[str, Any]] = [
    {"n": "high", "age": 80.0, "town": "Rome", "given": "yes"},
    {"n": "wrong", "age": 80.0, "town": "Rome", "given": "no"},
    {"n": "low", "age": 10.0, "town": "Oslo", "given": "no"},
    {"n": "between", "age": 42.0, "town": "Oslo", "given": "no"},
]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    with LabelStudio(tmp_path_factory.mktemp("label-studio")) as server:
        yield server


@pytest.fixture
def remote(folder: Path) -> Iterator[tuple[Opened, str]]:
    with served(folder, TOKEN) as (here, url):
        yield here, f"{url}/label-studio"


@pytest.fixture
def here(remote: tuple[Opened, str]) -> Opened:
    return remote[0]


@pytest.fixture
def project(studio: LabelStudio, remote: tuple[Opened, str]) -> int:
    """Return the id of a project that is connected."""
    number = studio.make_project(CONFIG, sampling="Uncertainty sampling")
    studio.connect(number, remote[1], TOKEN)
    return number


@pytest.fixture
def tasks(studio: LabelStudio, project: int) -> dict[str, int]:
    """Return the ids of the project's tasks by those of their rows."""
    numbers = studio.import_tasks(project, [{"data": data} for data in TASKS])
    return {data["n"]: number for data, number in zip(TASKS, numbers, strict=True)}


def trained_label(here: Opened, name: str) -> str | None:
    """Return the label that a row has after training, None where it has none."""
    here.train()
    return here.held().get(name)


def test_annotations_are_trained_on_changed_and_withdrawn(
    studio: LabelStudio, here: Opened, tasks: dict[str, int]
) -> None:
    annotation = studio.annotate(tasks["wrong"], "yes")
    assert trained_label(here, "wrong") == "yes"
    studio.call("PATCH", f"annotations/{annotation}/", chosen("no"))
    assert trained_label(here, "wrong") == "no"
    studio.call("DELETE", f"annotations/{annotation}/")
    assert trained_label(here, "wrong") is None
    studio.annotate(tasks["wrong"], "yes")
    assert trained_label(here, "wrong") == "yes"


def test_what_is_skipped_is_no_label(
    studio: LabelStudio, here: Opened, tasks: dict[str, int]
) -> None:
    end = here.journal.end
    studio.annotate(tasks["between"], "yes", was_cancelled=True)
    assert here.journal.end == end
    annotation = studio.annotate(tasks["high"], "yes")
    assert trained_label(here, "high") == "yes"
    studio.call("PATCH", f"annotations/{annotation}/", {"was_cancelled": True})
    assert trained_label(here, "high") is None


def test_annotations_of_several_tasks_at_once(
    studio: LabelStudio, here: Opened, project: int, tasks: dict[str, int]
) -> None:
    """Predictions become annotations by a click of the project's manager, and are deleted."""
    studio.call("POST", f"dm/actions?id=retrieve_tasks_predictions&project={project}", EVERY)
    path = f"dm/actions?id=predictions_to_annotations&project={project}"
    studio.call("POST", path, EVERY | {"model_version": "tamis"})
    assert trained_label(here, "wrong") == "yes"
    assert trained_label(here, "low") == "no"
    studio.call("POST", f"dm/actions?id=delete_tasks_annotations&project={project}", EVERY)
    assert {trained_label(here, name) for name in tasks} == {None}


def test_suspects_come_first(studio: LabelStudio, project: int, tasks: dict[str, int]) -> None:
    studio.call("POST", f"dm/actions?id=retrieve_tasks_predictions&project={project}", EVERY)
    first = studio.call("GET", f"projects/{project}/next")
    assert first["data"]["n"] == "wrong"
    assert first["id"] == tasks["wrong"]
    assert first["queue"].startswith("Active learning")
    assert first["predictions"][0]["result"][0]["value"] == {"choices": ["yes"]}
    studio.annotate(first["id"], "yes")
    assert studio.call("GET", f"projects/{project}/next")["data"]["n"] == "between"
    view = {"project": project, "data": {"ordering": ["tasks:predictions_score"]}}
    number = studio.call("POST", "dm/views/", view)["id"]
    listed = studio.call("GET", f"tasks?view={number}&fields=all")["tasks"]
    assert [task["data"]["n"] for task in listed][:2] == ["wrong", "between"]


def test_what_cannot_be_connected_is_refused(
    studio: LabelStudio, remote: tuple[Opened, str]
) -> None:
    project = studio.make_project(CONFIG)
    with pytest.raises(ApiError, match="authentication parameters"):
        studio.connect(project, remote[1], "wrong")
    text = '<View><Text name="row" value="$town"/><TextArea name="label" toName="row"/></View>'
    with pytest.raises(ApiError, match="422"):
        studio.connect(studio.make_project(text), remote[1], TOKEN)


def test_the_worst_suspect_of_a_table_is_corrected_in_label_studio(
    studio: LabelStudio, table: Callable[..., Path], tmp_path: Path
) -> None:
    """By the commands alone: train, export, serve."""
    folder, file = table(), tmp_path / "tasks.json"
    assert main(["export", str(folder), "--format", "label-studio", "--out", str(file)]) == 0
    exported = json.loads(file.read_text())
    worst = max((task["data"] for task in exported), key=lambda data: float(data["score"]))
    config = (tmp_path / "tasks-config.xml").read_text()
    project = studio.make_project(config, sampling="Uncertainty sampling")
    studio.import_tasks(project, exported[::-1])  # the order of the file is not what counts
    process = ServeProcess(folder, "--token")
    token = process.printed.read_text().split("Bearer ")[1].split()[0]
    url = process.url.split("?")[0].rstrip("/")
    studio.connect(project, f"{url}/label-studio", token)
    first = studio.call("GET", f"projects/{project}/next")
    assert first["data"]["id"] == worst["id"]
    studio.annotate(first["id"], worst["suggested"])
    headers = {"Authorization": f"Bearer {token}"}

    def unread() -> float:
        text = httpx.get(f"{url}/metrics", headers=headers, trust_env=False).raise_for_status().text
        (line,) = (line for line in text.splitlines() if line.startswith("tamis_journal_unread "))
        return float(line.split()[1])

    wait_until(lambda: unread() == 0, what="a label that is read")
    process.send(signal.SIGTERM)
    with opened(folder) as here:
        assert here.held()[worst["id"]] == worst["suggested"] != worst["given"]
        assert here.train() == 0
