"""What commands print: the next step for people, one JSON object for programs, or nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tamis.cli.main import main
from tests.support.wait import wait_until

STEP = re.compile(r"^(Open|[A-Z][a-z ]+ with:) \S+.*$")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, labels by annotators, and a run on the table."""
    place = tmp_path_factory.mktemp("output")
    rows = [f"r{row},{row % 7},{('ant', 'bee')[row % 2]}\n" for row in range(60)]
    (place / "rows.csv").write_text("id,a,kind\n" + "".join(rows))
    votes = [
        f"{row},{who},{(row + (who == 'cy')) % 2}\n"
        for row in range(30)
        for who in ("al", "bo", "cy")
    ]
    (place / "votes.csv").write_text("task,worker,label\n" + "".join(votes))
    train = ["train", str(place / "rows.csv"), "--label", "kind", "--id", "id", "--slots", "20"]
    assert main([*train, "--out", str(place / "run")]) == 0
    return place


LINES = {
    "train": "train rows.csv --label kind --id id --slots 5 --out {out}",
    "stream": "stream rows.csv --label kind --id id --slots 5 --out {out}",
    "predict": "predict run rows.csv --out {out}.csv",
    "report": "report run --out {out}.html",
    "compare": "compare run --out {out}.html",
    "export": "export run --most 3 --out {out}.csv",
    "corrected": "export run --format corrected --out {out}.csv",
    "import": "import some.csv --run run",
    "audit": "audit run --answers answers.csv",
    "annotators": "annotators votes.csv --out {out}.csv",
    "list": "list",
}  # fmt: skip
KEYS = {
    "train": {"run", "clean_ratio", "wrong", "suspects", "slots"},
    "stream": {"run", "clean_ratio", "records"},
    "predict": {"out", "rows", "accuracy"},
    "report": {"page", "clean_ratio", "wrong"},
    "compare": {"page", "runs"},
    "export": {"out", "rows"},
    "corrected": {"out", "rows"},
    "import": {"added", "unchanged", "unknown"},
    "audit": {"audited", "rows"},
    "annotators": {"annotators", "out"},
    "list": {"selectors"},
}


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    Path("some.csv").write_text("id,label\n")
    Path("answers.csv").write_text("id,label\n")
    return folder


def run_line(name: str, tmp_path: Path, *more: str) -> int:
    return main([*LINES[name].format(out=tmp_path / "out").split(), *more])


@pytest.mark.parametrize("name", LINES)
def test_json_is_one_object_and_people_read_on_standard_error(
    name: str, here: Path, tmp_path: Path, capsys
) -> None:
    assert run_line(name, tmp_path, "--json") == 0
    printed = capsys.readouterr()
    found: dict[str, Any] = json.loads(printed.out)
    assert KEYS[name] <= set(found)
    assert found["command"] == f"tamis {LINES[name].split()[0]}"
    last = printed.err.strip().splitlines()[-1]
    assert STEP.match(last), last


@pytest.mark.parametrize("name", LINES)
def test_quiet_prints_nothing(name: str, here: Path, tmp_path: Path, capsys) -> None:
    assert run_line(name, tmp_path, "--quiet") == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_json_of_a_mistake_has_the_error(here: Path, capsys) -> None:
    assert main(["predict", "run", "none.csv", "--json"]) == 2
    printed = capsys.readouterr()
    assert "none.csv" in json.loads(printed.out)["error"]
    assert len(printed.err.splitlines()) == 1


def test_numbers_of_json_are_those_of_the_text(here: Path, tmp_path: Path, capsys) -> None:
    assert run_line("train", tmp_path, "--json", "--dry-run") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 60
    assert found["classes"] == {"ant": 30, "bee": 30}
    assert run_line("report", tmp_path, "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert f"Estimated clean ratio: {found['clean_ratio']:.2f}" in printed.err
    assert f"About {found['wrong']} of {found['labels']} labels" in printed.err


def test_the_sample_of_an_audit_is_the_output_also_if_quiet(here: Path, capsys) -> None:
    assert main(["audit", "run", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("id,given,label\n")
    assert printed.err == ""
    assert main(["audit", "run", "--json"]) == 0
    sample = json.loads(capsys.readouterr().out)["sample"]
    assert len(sample) == len(printed.out.splitlines()) - 1 == 60


def test_the_most_suspicious_are_exported(here: Path, tmp_path: Path) -> None:
    every, few = tmp_path / "all.jsonl", tmp_path / "few.jsonl"
    for more in (["--out", str(every)], ["--out", str(few), "--most", "2"]):
        assert main(["export", "run", "--format", "jsonl", *more]) == 0
    assert few.read_text().splitlines() == every.read_text().splitlines()[:2]


def test_watch_prints_its_address_as_json_at_once(here: Path, tmp_path: Path) -> None:
    words = ["watch", "run", "--port", "0", "--json"]
    out = (tmp_path / "printed").open("w+")
    server = subprocess.Popen(
        [sys.executable, "-m", "tamis.cli", *words],
        stdout=out, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        wait_until(lambda: (tmp_path / "printed").read_text().endswith("\n"))
        found = json.loads((tmp_path / "printed").read_text())
        assert found["url"].startswith("http://127.0.0.1:")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        out.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("name", ["train", "stream", "predict"])
def test_a_gpu_that_is_not_there_costs_one_sentence(
    name: str, here: Path, tmp_path: Path, capsys
) -> None:
    assert run_line(name, tmp_path, "--device", "cuda") == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "--device cuda: " in error
    assert error.endswith("or use --device cpu.\n")
