"""Rows on their way: made up with a few that are bad, to files that are rotated, and to Redis."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

from tests.support.brokers import TOPIC, Redis

CLASSES = ("ant", "bee", "cat", "dog")
WIDTH, NOISE, BAD = 8, 0.25, 0.04
FAULTS = ("nan", "infinite", "overflow", "width", "class", "no JSON")
UNLABELLED = 0.01
"""Share of rows without a label: they are not bad, they wait for it."""
KEPT = 10
"""Rotated files that stay."""


class Ledger:
    """Makes rows, and writes each down before it is sent; ids are numbers from 0 on."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.rng = random.Random(seed)  # noqa: S311 (no secret depends on it)
        self.truth: dict[int, str] = {}
        self.faults: dict[int, str] = {}
        self._centres = [[self.rng.gauss(0, 1.5) for _ in range(WIDTH)] for _ in CLASSES]
        self._file = path.open("w")

    @property
    def good(self) -> set[int]:
        """Ids of the rows that can be trained on, at once or once their labels have come."""
        return self.truth.keys() - self.faults.keys()

    @property
    def counts(self) -> Counter[str]:
        """How many rows are bad, by what is wrong with them."""
        return Counter(self.faults.values())

    def close(self) -> None:
        self._file.close()

    def make(self, count: int) -> list[tuple[int, bytes]]:
        """Return rows as an id and a line of JSON."""
        made = [self._row() for _ in range(count)]
        self._file.flush()
        return made

    def _row(self) -> tuple[int, bytes]:
        rng, number = self.rng, len(self.truth)
        right = rng.randrange(len(CLASSES))
        self.truth[number] = CLASSES[right]
        given = rng.randrange(len(CLASSES)) if rng.random() < NOISE else right
        x = [round(rng.gauss(mean, 1), 4) for mean in self._centres[right]]
        row = {"id": number, "x": x, "kind": CLASSES[given]}
        if number >= WIDTH and rng.random() < UNLABELLED:
            del row["kind"]
        fault = rng.choice(FAULTS) if number >= WIDTH and rng.random() < BAD else None
        if fault:
            self.faults[number] = fault
        match fault:
            case "nan" | "infinite" | "overflow":
                numbers = {"nan": float("nan"), "infinite": float("inf"), "overflow": 1e39}
                x[rng.randrange(WIDTH)] = numbers[fault]
            case "width":
                x.pop()
            case "class":
                row["kind"] = "emu"
        line = json.dumps(row)
        line = line[: len(line) // 2] if fault == "no JSON" else line
        self._file.write(json.dumps({"id": number, "fault": fault, "line": line}) + "\n")
        return number, line.encode()


class Folder:
    """A file that grows and is rotated, as logrotate does it: renamed, or copied and truncated."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows.jsonl"
        self.rotated: list[Path] = []
        self._number = 0
        folder.mkdir()

    def send(self, rows: list[tuple[int, bytes]]) -> None:
        with self.path.open("ab") as file:
            file.writelines(line + b"\n" for _, line in rows)

    def rotate(self, way: str) -> str:
        """Rotate the file; compress the one before, and remove the oldest."""
        self._number += 1
        target = self.path.with_name(f"{self.path.name}.{self._number}")
        if way == "rename":
            self.path.rename(target)
        else:
            shutil.copy(self.path, target)
            os.truncate(self.path, 0)
        if self.rotated and self.rotated[-1].suffix != ".gz":
            self.rotated[-1] = self._compress(self.rotated[-1])
        self.rotated.append(target)
        if way == "copytruncate, gzip":
            self.rotated[-1] = self._compress(target)
        while len(self.rotated) > KEPT:
            self.rotated.pop(0).unlink()
        return self.rotated[-1].name

    def _compress(self, path: Path) -> Path:
        packed = path.with_name(f"{path.name}.gz")
        with path.open("rb") as plain, gzip.open(packed, "wb") as file:
            shutil.copyfileobj(plain, file)
        path.unlink()
        return packed


class Entries:
    """Rows to a stream of Redis; what an outage keeps back is sent later, and nothing twice."""

    def __init__(self, server: Redis) -> None:
        import redis

        self.server = server
        self.waiting: list[tuple[int, bytes]] = []
        self._errors = (redis.ConnectionError, redis.TimeoutError)
        self._refusal = redis.ResponseError
        self._client = redis.Redis(port=server.port, socket_timeout=5)

    def send(self, rows: list[tuple[int, bytes]]) -> None:
        self.waiting += rows
        try:
            while self.waiting:
                number, line = self.waiting[0]
                try:
                    self._client.xadd(TOPIC, {"data": line}, id=f"{number + 1}-0")
                except self._refusal as error:
                    if "equal or smaller" not in str(error):  # sent before the server died
                        raise
                self.waiting.pop(0)
        except self._errors:
            return
