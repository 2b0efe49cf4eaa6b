"""All of it at once: a training in one process, its page in another, a person in a real browser."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tamis.checkpoint import Checkpoints
from tamis.runs import read_lines
from tamis.streams import Constant, Replay, Symmetric, digits
from tests.support.chromium import Chromium
from tests.support.sample_run import CLASSES
from tests.support.wait import wait_until

pytestmark = pytest.mark.slow
NEWS = "document.querySelector('#news').innerText"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scans of digits as columns, three labels in ten wrong."""
    data = digits()
    stream = Replay(data.inputs, data.labels, Symmetric(10), Constant(0.7), rows_per_slot=1347)
    samples = next(iter(stream))
    path = tmp_path_factory.mktemp("table") / "digits.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *(f"p{pixel}" for pixel in range(64)), "digit"])
        rows = zip(samples.inputs.flatten(1).tolist(), samples.labels.tolist(), strict=True)
        for row, (pixels, label) in enumerate(rows):
            writer.writerow([f"scan-{row}", *pixels, CLASSES[label]])
    return path


@pytest.fixture
def begin() -> Iterator:
    """Start commands of tamis, and end what is left of them."""
    begun: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tamis.cli", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def wait_for(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for what a running process brings about."""

    def met() -> bool:
        assert process.poll() is None, process.communicate()
        return holds()

    wait_until(met)


def ids(folder: Path) -> list[str]:
    return [line["id"] for line in read_lines(folder / "suspects.jsonl")]


def test_what_a_person_decides_in_the_page_is_trained_on_at_once(
    browser: Chromium, table: Path, begin, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    few = ["--capacity", 2000, "--k", 8, "--pool-size", 64, "--slots", 1_000_000]
    train = begin("train", table, "--label", "digit", "--id", "name", "--out", out, *few)
    wait_for(lambda: bool(ids(out)), train)
    watch = begin("watch", out, "--port", 0, "--author", "ann")
    found = re.search(r"http://\S+", watch.stdout.readline())
    assert found
    tab = browser.open(found[0])
    tab.wait("document.body.dataset.ready")
    tab.wait("/^at slot .* of 1,000,000$/.test(document.querySelector('#state').innerText)")
    before = tab.text("#state")

    def current_suspect() -> str:
        return tab.text("#current p").partition(",")[0]

    decided = []
    for key in "rd":
        name = current_suspect()
        tab.press(key)
        tab.wait(f"{NEWS}.startsWith({json.dumps(name + ':')})")
        decided.append(name)
    lines = read_lines(out / "decisions.jsonl")
    assert [(line["id"], line["decision"]) for line in lines] == [
        (decided[0], "relabel"), (decided[1], "drop"),
    ]  # fmt: skip
    assert lines[0]["author"] == "ann"
    wait_for(lambda: not set(decided) & set(ids(out)), train)  # they are ranked again
    tab.wait(f"document.querySelector('#state').innerText !== {json.dumps(before)}")
    assert tab.troubles() == []
    train.send_signal(signal.SIGTERM)
    printed, _ = train.communicate()
    assert train.returncode == 128 + signal.SIGTERM, printed
    tab.wait("document.querySelector('#state').innerText === 'stopped early'")
    tab.close()
    newest = Checkpoints(out / "checkpoints").generations()[-1]
    tensors = load_file(out / "checkpoints" / f"{newest:08d}" / "tensors.safetensors")
    numbers, labels = (tensors[f"/run/buffer/rows/{name}"].tolist() for name in ("ids", "labels"))
    held = dict(zip((f"scan-{number}" for number in numbers), labels, strict=True))
    assert CLASSES[held[decided[0]]] == lines[0]["label"] != lines[0]["given"]
    assert decided[1] not in held
    assert len(held) == 1346
