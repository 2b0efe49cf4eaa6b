"""The twelve tasks of a newcomer: every program and command line of the page runs, as a process."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.wait import END, wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "tasks.md"
TITLES = re.findall(r"^## (\d+)\. (.+)$", PAGE.read_text(), re.MULTILINE)
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {"tamis": [sys.executable, "-m", "tamis.cli"], "python": [sys.executable]}
SETTINGS = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
SETTINGS["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
LINK = re.compile(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)")
Cells = list[dict[str, str]]


def part(number: int) -> list[tuple[str, str]]:
    """Return the blocks of a task; 0 is what comes before the first."""
    return BLOCK.findall(re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[number])


def lines(number: int) -> list[str]:
    """Return the command lines of a task."""
    return [line for kind, text in part(number) if kind == "sh" for line in text.splitlines()]


def words_of(line: str) -> list[str]:
    program, *rest = shlex.split(line)
    return [*PROGRAMS[program], *(str(ROOT / w) if w.startswith("examples/") else w for w in rest)]


def run(line: str, folder: Path) -> str:
    """Run a command line to its end, and return what it printed."""
    done = subprocess.run(
        words_of(line), cwd=folder, env=SETTINGS, capture_output=True, text=True, check=False,
        timeout=4 * END,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def started(line: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command line that goes on; it is killed where the test has not ended it."""
    with (folder / "printed").open("wb") as out:
        process = subprocess.Popen(
            [*words_of(line), *more], cwd=folder, env=SETTINGS, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def do(number: int, folder: Path) -> str:
    """Run the programs and command lines of a task in order, and return what they printed."""
    printed = ""
    for kind, text in part(number):
        if kind == "sh":
            printed += "".join(run(line, folder) for line in text.splitlines())
            continue
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, text
        (folder / name[1]).write_text(text)
        run(f"python {name[1]}", folder)
    return printed


def read(path: Path) -> Cells:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def slots(folder: Path) -> int:
    log = folder / "log.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_page_has_twelve_tasks() -> None:
    assert [int(number) for number, _ in TITLES] == list(range(1, 13))
    assert all(lines(number) for number in range(1, 13))


def test_the_page_is_two_clicks_from_the_readme() -> None:
    found = {ROOT / "README.md"}
    for _ in range(2):
        found |= {
            (page.parent / link).resolve()
            for page in found
            for link in LINK.findall(page.read_text())
        }
    assert PAGE in found


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_twelve_run(tmp_path: Path) -> None:
    do(0, tmp_path)
    truth = {row["name"]: row["kind"] for row in read(tmp_path / "truth.csv")}
    given = read(tmp_path / "messy.csv")

    assert "Review with: tamis watch tamis-run" in do(1, tmp_path)

    accuracy = re.search(r"Accuracy (0\.\d+) on 600", do(2, tmp_path))
    assert accuracy
    assert float(accuracy[1]) > 0.85
    assert len(read(tmp_path / "predictions.csv")) == 600

    assert "10 decisions added" in do(3, tmp_path)
    ten = read(tmp_path / "ten.csv")
    assert sum(truth[row["id"]] == row["label"] for row in ten) >= 9

    assert "10 relabelled" in do(4, tmp_path)
    corrected = {row["name"]: row["kind"] for row in read(tmp_path / "corrected.csv")}
    changed = {row["name"] for row in given if corrected[row["name"]] != row["kind"]}
    assert changed == {row["id"] for row in ten}

    first, resume = lines(5)
    with started(first, tmp_path) as training:
        wait_until(lambda: slots(tmp_path / "long-run") > 30)
        training.kill()
    assert "Trained for" in run(resume, tmp_path)
    assert json.loads((tmp_path / "long-run" / "about.json").read_text())["ended"] == "done"
    assert (tmp_path / "long-run" / "model.safetensors").exists()

    follow(tmp_path, given)
    assert "Model, log, suspects: my-run" in do(7, tmp_path)
    assert re.search(r"accuracy 0\.9\d+", do(8, tmp_path))

    found = json.loads(do(9, tmp_path))
    right = sum(truth[row["name"]] == row["kind"] for row in given) / len(given)
    assert abs(found["clean_ratio"] - right) < 0.1

    serve(tmp_path)
    assert "eve" in do(11, tmp_path)
    assert read(tmp_path / "votes-joint-annotators.csv")[0]["annotator"] == "eve"
    assert "Open compare.html" in do(12, tmp_path)
    assert "my-run" in (tmp_path / "compare.html").read_text()


def follow(folder: Path, rows: Cells) -> None:
    """Follow the file of task 6: rows that are appended are trained on, and Ctrl-C saves."""
    (line,) = lines(6)
    run_folder = folder / "live-run"
    with started(line, folder) as stream:
        wait_until(lambda: slots(run_folder) >= 60)
        with (folder / "messy.csv").open("a", newline="") as file:
            csv.DictWriter(file, list(rows[0])).writerows(
                {**row, "name": f"new-{row['name']}"} for row in rows[:50]
            )
        wait_until(lambda: slots(run_folder) >= 65)
        stream.send_signal(signal.SIGINT)
        assert stream.wait(END) == 130
    assert "on 650 records" in (folder / "printed").read_text()


def serve(folder: Path) -> None:
    """Serve as in task 10, at any port that is free: a prediction, a label, SIGTERM."""
    (line,) = lines(10)
    with started(line, folder, "--port", "0", "--json") as server:
        printed = folder / "printed"
        wait_until(lambda: '"url"' in printed.read_text())
        (text,) = (each for each in printed.read_text().splitlines() if each.startswith("{"))
        with httpx.Client(base_url=json.loads(text)["url"], timeout=END) as client:
            wait_until(lambda: client.get("/health/ready").status_code == 200)
            body = {"rows": [{"width": 2.0, "height": 1.0, "found in": "garden"}]}
            (found,) = client.post("/predict", json=body).json()["predictions"]
            assert found["class"] == "ant"
            label = {"id": found["id"], "label": "ant"}
            assert client.post("/labels", json=label).status_code == 202
        server.send_signal(signal.SIGTERM)
        assert server.wait(END) == 143
