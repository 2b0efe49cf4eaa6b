"""A table of one's own, as it is, through every command: train, watch, review, predict, export."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tamis.runs import read_lines
from tests.support.mixed_table import write_mixed
from tests.support.review_client import Client

pytestmark = pytest.mark.slow
ROWS = 200
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def tamis(folder: Path, *words: str) -> str:
    """Run a command in a folder, and return what it prints."""
    command = [sys.executable, "-m", "tamis.cli", *words]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@contextmanager
def watching(folder: Path) -> Iterator[Client]:
    """Serve the page of the run, on any free port, since tests share a machine."""
    command = [sys.executable, "-u", "-m", "tamis.cli", "watch", "tamis-run", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            found = re.search(r"http://[^:]+:(\d+)", process.stdout.readline())
            assert found
            yield Client(int(found[1]))
        finally:
            process.kill()


def read(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_a_table_goes_through_with_no_flag_but_label_and_id(tmp_path: Path) -> None:
    """Strings, dates, amounts, 8% missing values and an id: no row is dropped on the way."""
    source = tmp_path / "customers.csv"
    records = write_mixed(source, ROWS)
    cells = [cell for record in records for cell in record.values()]
    assert 0.05 < cells.count("") / len(cells) < 0.1
    tamis(tmp_path, "train", "customers.csv", "--label", "churn", "--id", "customer")
    run = tmp_path / "tamis-run"
    last = read_lines(run / "log.jsonl")[-1]
    assert (last["seen"], last["skipped"]) == (ROWS, 0)
    assert not (run / "rejects.jsonl").exists()

    relabelled, removed, kept = review(tmp_path, records)

    printed = tamis(tmp_path, "predict", "tamis-run", "customers.csv")
    assert f"{ROWS} rows, {ROWS} predictions" in printed
    predicted = read(tmp_path / "customers-predictions.csv")
    assert [line["customer"] for line in predicted] == [record["customer"] for record in records]
    assert {line["prediction"] for line in predicted} == {"left", "stayed"}
    assert not any(line["reason"] for line in predicted)

    printed = tamis(tmp_path, "export", "tamis-run", "--format", "corrected")
    assert f"{ROWS} rows of customers.csv, 1 relabelled, 1 removed, 1 kept" in printed
    before = source.read_text(encoding="utf-8").splitlines()
    after = (tmp_path / "corrected-customers.csv").read_text(encoding="utf-8").splitlines()
    assert after[0] == before[0] + ";tamis_decision;tamis_original_label"
    left = [line for line in before[1:] if not line.startswith(removed)]
    assert len(left) == len(after) - 1 == ROWS - 1
    for old, new in zip(left, after[1:], strict=True):
        name, given = old.split(";")[0], old.rpartition(";")[2]
        label = {"left": "stayed", "stayed": "left"}[given] if name == relabelled else given
        change = f"relabelled;{given}" if name == relabelled else "kept;" if name == kept else ";"
        assert new == f"{old.rpartition(';')[0]};{label};{change}"


def review(folder: Path, records: list[dict[str, str]]) -> tuple[str, str, str]:
    """Look at the suspects, decide about three of them, and return their ids."""
    written = {record["customer"]: record for record in records}
    with watching(folder) as client:
        assert "Labels that look wrong" in client.ask("/")[2]
        items = client.get("/suspects")["items"]
        assert len(items) >= 10
        for item in items:
            wanted = {name: value or None for name, value in written[item["id"]].items()}
            del wanted["customer"], wanted["churn"]
            columns = client.get("/neighbours", id=item["id"])["preview"]["columns"]
            assert columns == wanted
            assert item["given"] == written[item["id"]]["churn"]
        first, second, third = (item["id"] for item in items[:3])
        for name, decision in ((first, "relabel"), (second, "drop"), (third, "keep")):
            label = items[0]["suggested"] if decision == "relabel" else None
            status, answer = client.post({"id": name, "decision": decision, "label": label})
            assert status == 200, answer
        assert client.get("/suspects", which="decided")["total"] == 3
        assert "for 2 suspects" in client.ask("/classes")[2]
    return first, second, third
