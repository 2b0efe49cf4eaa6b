"""A service under load that is killed again and again, and what is left of it."""

from __future__ import annotations

import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import httpx

from tamis.sources import Journal
from tests.support.services import ServeProcess, make_rows, opened, unlabelled

OTHER = {"no": "yes", "yes": "no"}


@dataclass
class Sent:
    """What clients have sent: the last label of each row, and the rows whose fate is unknown."""

    accepted: dict[str, str | None] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class Load:
    """A client that predicts rows, labels them, changes some labels and withdraws others."""

    def __init__(self, url: str, who: str, sent: Sent) -> None:
        self.url, self.who, self.sent = url, who, sent
        self.rng = random.Random(who)  # noqa: S311
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        rows = make_rows(1000, seed=len(self.who))
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            for number, row in enumerate(rows):
                name = f"{self.who}-{number}"
                try:
                    self._send(client, name, row)
                except (httpx.HTTPError, OSError):
                    return  # the service is gone; what became of its last request is not known

    def _send(self, client: httpx.Client, name: str, row: dict[str, Any]) -> None:
        """Send a row and its labels; note each as accepted only once it was answered."""
        if self.rng.random() < 0.3:
            self._note(client, "/rows", {"rows": [row], "ids": [name]}, name, row["y"])
            return
        self._note(client, "/predict", {"rows": [unlabelled(row)], "ids": [name]}, name, None)
        self._note(client, "/labels", {"id": name, "label": row["y"]}, name, row["y"])
        chosen = self.rng.random()
        if chosen < 0.2:
            label = OTHER[row["y"]]
            self._note(client, "/labels", {"id": name, "label": label}, name, label)
        elif chosen < 0.3:
            self._note(client, "/labels", {"id": name, "label": None}, name, None)

    def _note(
        self, client: httpx.Client, path: str, body: dict[str, Any], name: str, label: str | None
    ) -> None:
        self.sent.unknown.add(name)
        answer = client.post(path, json=body)
        if answer.status_code == 503:
            raise ConnectionError(answer.text)  # it stops
        assert answer.status_code in (200, 202), answer.text
        self.sent.accepted[name] = label
        self.sent.unknown.discard(name)


def kill_under_load(folder: Path, kills: int, clients: int = 3) -> Sent:
    """Serve a run, kill it so many times at random moments, then stop it by a signal."""
    rng, sent = random.Random(0), Sent()  # noqa: S311
    for round_ in range(kills + 1):
        served = ServeProcess(folder, "--save-every", "5", "--rows-per-slot", "8")
        before = len(sent.accepted)
        loads = [Load(served.url, f"{round_}{'x' * n}", sent) for n in range(clients)]
        while len(sent.accepted) < before + 10 and served.process.exitcode is None:
            sleep(0.01)
        sleep(rng.random() * 0.3)  # any moment will do
        ended = served.send(signal.SIGKILL if round_ < kills else signal.SIGTERM)
        for load in loads:
            load.thread.join()
        assert ended == (-signal.SIGKILL if round_ < kills else 128 + signal.SIGTERM)
    return sent


def check_nothing_lost(folder: Path, sent: Sent) -> None:
    """Check that each accepted row and label was trained on, and each record of the journal once.

    A row whose last request was not answered may have any label: it was accepted, or not.
    """
    with opened(folder) as here:
        here.train()
        held, room = here.held(), here.run.trainer.waiting
        assert room is not None
        for name, label in sent.accepted.items():
            if name not in sent.unknown:
                assert held.get(name) == label, name
        waiting = here.run.recorder.own.names_of(room.pool().ids.tolist())
        withdrawn = {name for name, label in sent.accepted.items() if label is None}
        assert withdrawn - sent.unknown <= set(waiting)
        assert len(waiting) == len(set(waiting))
        records = [
            record for batch in Journal(folder / "journal").read() for record in batch.records
        ]
        assert room.came == sum("age" in record for record in records)
        assert here.run.trainer.validator.rejects.total == 0
        ids = here.run.trainer.held().ids.tolist()
        assert len(ids) == len(set(ids))
