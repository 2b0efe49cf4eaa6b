"""A reviewer of suspects, over the HTTP API of `tamis watch`."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

from tests.support.faults.hour.consumers import Consumer, Note
from tests.support.faults.hour.senders import CLASSES, Ledger
from tests.support.wait import END, wait_until


class Reviewer:
    """Watches one run, and decides about its suspects as one who knows most labels does."""

    def __init__(self, consumer: Consumer, ledger: Ledger, seed: int) -> None:
        self.consumer = consumer
        self.ledger = ledger
        self.rng = random.Random(f"reviewer {consumer.name} {seed}")  # noqa: S311
        self.output = consumer.output.with_name(f"{consumer.name}-watch.txt")
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tamis.cli", "watch", str(consumer.run), "--port", "0"],
                stdout=file,
                stderr=file,
                env=os.environ | {"COLUMNS": "200"},
            )
        self.made: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self._decided: list[str] = []
        self.url = ""

    @property
    def ready(self) -> bool:
        """Whether the server has printed its address."""
        if not self.url:
            found = re.search(r"at (http://\S+)/", self.output.read_text())
            self.url = found[1] if found else ""
        return bool(self.url)

    def review(self, note: Note) -> None:
        """Decide about one suspect, or undo what was decided before."""
        if not self.ready:
            return
        items = self.suspects()
        if self._decided and self.rng.random() < 0.15:
            name = self._decided.pop(self.rng.randrange(len(self._decided)))
            self._send({"id": name, "decision": "undo"}, note)
        elif items:
            newest = max(items, key=lambda one: int(one["id"]))
            item = newest if self.rng.random() < 0.7 else self.rng.choice(items)
            self._send({"id": item["id"]} | self._judge(item), note)

    def suspects(self, which: str = "open") -> list[dict[str, Any]]:
        """Return the first page of suspects, once there is a server."""
        wait_until(lambda: self.ready, what="an address of tamis watch")
        _, answer = self._request("GET", f"/suspects?which={which}")
        return list(answer["items"])

    def close(self) -> int:
        """End the server, and return its status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(END)

    def _judge(self, item: dict[str, Any]) -> dict[str, str]:
        luck, right = self.rng.random(), self.ledger.truth[int(item["id"])]
        if luck < 0.1:
            return {"decision": "drop"}
        if luck < 0.15:
            return {"decision": "skip"}
        if luck < 0.2:
            right = self.rng.choice(CLASSES)
        if right == item["given"]:
            return {"decision": "keep"}
        return {"decision": "relabel", "label": right}

    def _send(self, decision: dict[str, str], note: Note) -> None:
        status, answer = self._request("POST", "/decisions", decision | {"author": "reviewer"})
        if status != HTTPStatus.OK:  # a full disk, or a suspect that is none any more
            self.refused[status] += 1
            note("decision refused", self.consumer.name, status=status, **answer, **decision)
            return
        self.made[decision["decision"]] += 1
        if decision["decision"] not in ("undo", "skip"):
            self._decided.append(decision["id"])

    def _request(self, method: str, path: str, content: Any = None) -> tuple[int, Any]:
        """Return the status of an answer, and its content."""
        headers = {"X-Tamis": "1", "Origin": self.url, "Content-Type": "application/json"}
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=END)
        try:
            connection.request(method, path, content and json.dumps(content), headers)
            answer = connection.getresponse()
            return answer.status, json.load(answer)
        finally:
            connection.close()
