"""A real Label Studio server on loopback, and its API as a user's script calls it."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.brokers import HOST, free_port
from tests.support.wait import END, wait_until

FOLDER = "TAMIS_LABEL_STUDIO"
"""Environment variable with the folder of a virtual environment that has Label Studio."""
SETTINGS = {
    "COLLECT_ANALYTICS": "False",
    "LATEST_VERSION_CHECK": "False",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "ML_BLOCK_LOCAL_IP": "False",
    "SSRF_PROTECTION_ENABLED": "False",
}
"""Nothing leaves the machine, and addresses of the machine itself may be called."""


def program() -> str | None:
    """Return the path of the command `label-studio`, if it is installed."""
    folder = os.environ.get(FOLDER)
    return shutil.which("label-studio", path=f"{folder}/bin" if folder else None)


def missing() -> str:
    """Return why it cannot be started here, or nothing."""
    return "" if program() else f"no label-studio on this machine: set {FOLDER} to its environment"


class ApiError(AssertionError):
    """An answer of Label Studio that is an error."""


class LabelStudio:
    """Label Studio with SQLite in a folder of its own, ended with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.email = "annotator@example.org"
        self._token = secrets.token_hex(20)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        found = program()
        assert found is not None, missing()
        self.folder.mkdir(parents=True, exist_ok=True)
        log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                *(found, "start", "--no-browser", "--port", str(self.port)),
                *("--internal-host", HOST, "--username", self.email),
                *("--password", secrets.token_hex(20)),
                *("--user-token", self._token, "--enable-legacy-api-token"),
            ],
            env=os.environ | SETTINGS | {"LABEL_STUDIO_BASE_DATA_DIR": str(self.folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        try:
            wait_until(self._is_up, what="Label Studio")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # it starts a process of its own
            self._process.wait()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as the user, and return the answer."""
        headers = {"Authorization": f"Token {self._token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection(HOST, self.port, timeout=END)
        try:
            connection.request(method, f"/api/{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            raise ApiError(f"{method} {path}: {answer.status} {text[:2000]}")
        return json.loads(text) if text else None

    def make_project(self, config: str, **settings: Any) -> int:
        """Make a project with a labelling configuration, and return its id."""
        body = {"title": "tamis", "label_config": config} | settings
        return int(self.call("POST", "projects", body)["id"])

    def connect(self, project: int, url: str, token: str) -> int:
        """Connect an ML backend, give the token to the webhook made with it; return its id."""
        body = {
            "project": project, "url": url, "title": "tamis",
            "auth_method": "BASIC_AUTH", "basic_auth_user": "tamis", "basic_auth_pass": token,
        }  # fmt: skip
        backend = int(self.call("POST", "ml", body)["id"])
        (hook,) = self.call("GET", f"webhooks/?project={project}")
        headers = {"Authorization": f"Bearer {token}"}
        self.call("PATCH", f"webhooks/{hook['id']}/", {"url": hook["url"], "headers": headers})
        return backend

    def import_tasks(self, project: int, tasks: list[dict[str, Any]]) -> list[int]:
        """Import tasks, and return their ids in order."""
        self.call("POST", f"projects/{project}/import?return_task_ids=true", tasks)
        found = self.call("GET", f"tasks?project={project}&page_size=1000")
        return [int(task["id"]) for task in found["tasks"]]

    def annotate(self, task: int, label: str, **more: Any) -> int:
        """Choose a label for a task, and return the id of the annotation."""
        return int(self.call("POST", f"tasks/{task}/annotations/", chosen(label) | more)["id"])

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self.folder / "log").read_text(errors="replace")
            raise ApiError(f"Label Studio has ended: {log[-2000:]}")
        connection = http.client.HTTPConnection(HOST, self.port, timeout=END)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def chosen(label: str) -> dict[str, Any]:
    """Return the body of an annotation that chooses a label."""
    value = {"choices": [label]}
    part = {"from_name": "label", "to_name": "row", "type": "choices", "value": value}
    return {"result": [part]}
