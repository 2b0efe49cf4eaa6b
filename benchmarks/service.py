"""A service under load by a client process, beside the framework alone: docs/service.md.

python -m benchmarks.service [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import sleep
from typing import Any

from benchmarks.service_client import COLUMNS
from tamis.lab.pages.measurements import Row, machine, save_rows, table

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results" / "service" / "results.csv"
PAGE = ROOT / "docs" / "service.md"
BEGIN, END = "<!-- figures: written by python -m benchmarks.service -->", "<!-- end -->"
ROWS = 3000
CONNECTIONS = 16
PACE = 100
"""Rows a second of the load that is not the most that goes."""
BARE = """
import sys
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from tamis.web.service_app import Label, Labels, Rows
from tamis.web.service_server import ServiceServer, listen
from time import sleep

app = FastAPI()

@app.post("/predict")
async def predict(given: Rows):
    shares = {"high": 0.5, "low": 0.5}
    found = {"id": "0" * 32, "class": "high", "probability": 0.5, "probabilities": shares}
    return JSONResponse({"predictions": [found], "slots": 0})

@app.post("/labels")
async def label(given: Label | Labels):
    return JSONResponse({"accepted": 1, "ids": [given.id]}, 202)

with listen("127.0.0.1", 0) as listening, ServiceServer(app, listening):
    print(f"Serving at http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    sleep(10_000)
"""
"""The framework with the same server and forms, and nothing behind them."""


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@contextmanager
def started(command: list[str]) -> Iterator[tuple[str, int]]:
    """Start a server; yield its address and the number of its process."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    ) as process:
        assert process.stdout
        line = next(line for line in process.stdout if " at http" in line)
        Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield line.split(" at ")[1].strip().rstrip("/"), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def load(url: str, seconds: float, rate: float = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.service_client", url]
    command += ["--seconds", str(seconds), "--connections", str(CONNECTIONS), "--rate", str(rate)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def memory(process: int) -> float:
    """Return the resident megabytes of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Watched:
    """Memory of a process, every second."""

    def __init__(self, process: int) -> None:
        self.process, self.found = process, [memory(process)]
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self.found.append(memory(self.process))


def train(folder: Path) -> Path:
    """Train the run that is served."""
    rng = random.Random(0)  # noqa: S311
    file, run = folder / "rows.csv", folder / "run"
    with file.open("w") as out:
        out.write(",".join([f"x{at}" for at in range(COLUMNS)] + ["y"]) + "\n")
        for _ in range(ROWS):
            row = [rng.gauss(0, 1) for _ in range(COLUMNS)]
            label = "high" if row[0] + row[1] > 0 else "low"
            out.write(",".join([*(f"{cell:.4f}" for cell in row), label]) + "\n")
    command = [sys.executable, "-m", "tamis.cli", "train", str(file), "--label", "y"]
    command += ["--out", str(run), "--capacity", "10000"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    return run


def measure(seconds: float) -> Iterator[Row]:
    """Yield all figures."""
    what = f"{CONNECTIONS} connections"
    with started([sys.executable, "-c", BARE]) as (url, _):
        bare = load(url, min(seconds, 20))
    yield f"FastAPI and uvicorn alone, {what}: requests a second", f"{bare['rate']:.0f}", ""
    yield f"FastAPI and uvicorn alone, {what}: p50, ms", f"{bare['p50']:.1f}", ""
    yield f"FastAPI and uvicorn alone, {what}: p99, ms", f"{bare['p99']:.1f}", ""
    with TemporaryDirectory() as folder:
        run = train(Path(folder))
        command = [sys.executable, "-m", "tamis.cli", "serve", str(run), "--port", "0"]
        with started(command) as (url, process):
            sleep(2)
            load(url, 5)  # until all is loaded
            with Watched(process) as watched:
                full = load(url, seconds)
            paced = load(url, min(seconds, 20), PACE)
    answered = sum(full["statuses"].values())
    good = sum(n for status, n in full["statuses"].items() if status in ("200", "202"))
    yield f"tamis serve, {what}, {seconds:.0f} s: requests a second", f"{full['rate']:.0f}", ""
    yield f"tamis serve, {what}: predictions", f"{full['predictions']:,}", ""
    yield f"tamis serve, {what}: labels", f"{full['labels']:,}", ""
    yield f"tamis serve, {what}: p50, ms", f"{full['p50']:.1f}", ""
    yield f"tamis serve, {what}: p99, ms", f"{full['p99']:.1f}", ""
    yield f"tamis serve, {what}: requests not accepted", f"{answered - good}", "<= 0"
    third = len(watched.found) // 3
    early, late = max(watched.found[:third]), max(watched.found[-third:])
    yield "tamis serve: resident memory in the first third, MB", f"{early:.0f}", ""
    yield "tamis serve: resident memory in the last third, MB", f"{late:.0f}", ""
    yield f"tamis serve at {PACE} rows a second: p50, ms", f"{paced['p50']:.1f}", ""
    yield f"tamis serve at {PACE} rows a second: p99, ms", f"{paced['p99']:.1f}", ""


def write_page(rows: list[Row]) -> None:
    """Put the figures on the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END, 1)[1]
    found = table(("", "measured"), [row[:2] for row in rows])
    PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--dry-run", action="store_true", help="write neither file nor page")
    options = parser.parse_args()
    rows: list[Row] = [("machine", machine(), "")]
    for row in measure(options.seconds):
        print(*row, sep="\t", flush=True)
        rows.append(row)
    if not options.dry_run:
        save_rows(OUT, rows)
        write_page(rows)


if __name__ == "__main__":
    main()
