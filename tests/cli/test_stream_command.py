"""tamis stream: nothing lost and nothing twice, also where it is killed; slips cost one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tamis.cli.main import main
from tamis.sources import LostMessagesWarning, read_schema
from tests.support.brokers import Redis
from tests.support.commands import run_command
from tests.support.wait import wait_until

COLUMNS = ["--inputs", "a", "b", "--label", "kind", "--classes", "ant", "bee"]


def write_rows(path: Path, rows: int, bad: int = 0) -> Path:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for row in range(rows):
            kind = row % 2
            record = {"a": rng.normal(4 * kind, 1), "b": 1.0, "kind": ("ant", "bee")[kind]}
            file.write((json.dumps(record) if row >= bad else "garbage") + "\n")
    return path


def stream(*arguments: object) -> int:
    return main(["stream", *map(str, arguments)])


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tamis.cli", "stream", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_a_stream_that_was_stopped_goes_on_as_if_it_was_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 900, bad=7)
    once, twice = tmp_path / "once", tmp_path / "twice"
    assert stream(rows, *COLUMNS, "--out", once) == 0
    assert stream(rows, *COLUMNS, "--out", twice, "--slots", 40) == 0
    assert stream(rows, *COLUMNS, "--out", twice, "--resume") == 0
    for name in ("model.safetensors", "suspects.csv"):
        assert (once / name).read_bytes() == (twice / name).read_bytes()
    assert len((once / "rejects.jsonl").read_text().splitlines()) == 7
    assert capsys.readouterr().out.count("on 900 records, 7 bad") == 2


def test_too_many_bad_records_stop_it_with_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 300)
    with rows.open("a") as file:
        file.write("garbage\n" * 900)
    out = tmp_path / "run"
    assert stream(rows, *COLUMNS, "--out", out) == 2
    error = capsys.readouterr().err
    assert "records were bad" in error
    assert "is saved, the model is written, the suspects are listed" in error
    assert "rejects.jsonl" in error
    assert len(error.splitlines()) == 1
    assert list((out / "checkpoints").iterdir())
    for name in ("model.safetensors", "suspects.csv"):
        assert (out / name).exists()


def test_a_flag_goes_past_what_cannot_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", 400), tmp_path / "run"
    assert stream(rows, *COLUMNS, "--out", out, "--slots", 30) == 0
    content = rows.read_bytes()
    rows.write_bytes(content[len(content) // 2 :].partition(b"\n")[2])  # truncated, no copy kept
    left = len(rows.read_bytes().splitlines())
    capsys.readouterr()
    for _ in range(2):  # it fails for ever
        assert stream(rows, *COLUMNS, "--out", out, "--resume") == 2
        error = capsys.readouterr().err
        assert "rows.jsonl cannot be read on" in error
        assert "--resume --skip-lost goes past what cannot be read again." in error
        assert len(error.splitlines()) == 1
    with pytest.warns(LostMessagesWarning, match=r"what followed \d+ in rows.jsonl"):
        assert stream(rows, *COLUMNS, "--out", out, "--resume", "--skip-lost") == 0
    assert f"{300 + left} records, 0 bad" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["others.jsonl", *COLUMNS], "address was"),
        (["rows.jsonl", "--inputs", "b", "a", *COLUMNS[3:]], "inputs was"),
        (["rows.jsonl", *COLUMNS[:4], "other", *COLUMNS[5:]], "label was 'kind' and is 'other'"),
        (["rows.jsonl", *COLUMNS[:-2], "bee", "ant"], "classes was"),
    ],
)
def test_another_stream_is_refused(
    change: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_rows(tmp_path / "rows.jsonl", 40)
    (tmp_path / "others.jsonl").write_bytes(rows.read_bytes())
    few = ["--rows-per-slot", 10, "--scale-rows", 10, "--out", "run"]
    assert stream("rows.jsonl", *COLUMNS, *few, "--slots", 2) == 0
    capsys.readouterr()
    assert stream(*change, *few, "--resume") == 2
    error = capsys.readouterr().err
    assert message in error
    assert "--allow-mismatch" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.jsonl", "--classes", "a", "b"], "by --label, or a function by --rows"),
        (["redis://:w0rd@host/0", *COLUMNS], "must have stream"),
        (["none.jsonl", *COLUMNS], "none.jsonl"),
        (["bad.jsonl", *COLUMNS], "300 of the last 300 records were bad"),
        (["bad.jsonl", *COLUMNS, "--most-bad", "1"], "gave no record to train on"),
        (["rows.jsonl", *COLUMNS, "--id", "nmae"], "column missing: nmae"),
        (["rows.jsonl", *COLUMNS[:1], "aa", *COLUMNS[3:]], "column missing: aa"),
        (["rows.jsonl", *COLUMNS[:-2], "fly", "cow"], "label is not a class: bee"),
        (["rows.jsonl", *COLUMNS, "ant"], "--classes names ant more than once"),
        (["rows.jsonl", *COLUMNS, "--out", "rows.jsonl"], "rows.jsonl is a file, not a folder"),
        (["rows.jsonl", *COLUMNS, "--out", 300 * "x"], "File name too long"),
        (["rows.jsonl", *COLUMNS, "--model", "resnet18"], "it needs images, and the rows have"),
    ],
)
def test_a_slip_costs_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", 300)
    write_rows(tmp_path / "bad.jsonl", 300, bad=300)
    assert stream(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "w0rd" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_one_that_waits_stops_on_a_signal(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", 400), tmp_path / "run"
    process = start(rows, *COLUMNS, "--out", out, "--follow", "--save-every", "10")
    wait_until((out / "checkpoints" / "00000002").exists)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, printed
    with rows.open("a") as file:
        file.write(rows.read_text())
    assert stream(rows, *COLUMNS, "--out", out, "--resume") == 0
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [line["slot"] for line in log] == list(range(len(log)))
    assert log[-1]["seen"] == 800


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if Redis.missing():
        pytest.skip(Redis.missing())
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Redis(folder)
    yield server
    server.close()


@pytest.mark.slow
def test_killed_while_it_reads_redis_it_loses_nothing(tmp_path: Path, redis: Redis) -> None:
    """Kill -9 at three moments; what is saved in the end has seen every record once."""
    total, out = 1200, tmp_path / "run"
    redis.produce(0, threading.Event(), total)
    common = ["--inputs", "a", "--label", "kind", "--classes", "0", "1", "--id", "id"]
    common += ["--patience", "2", "--save-every", "15", "--scale-rows", "50", "--out", str(out)]
    for resume in ([], ["--resume"], ["--resume"]):
        killed = run_command(
            "stream", redis.address, *common, *resume, stop=signal.SIGKILL, after=20
        )
        assert killed.returncode == -signal.SIGKILL, killed.printed
    done = run_command("stream", redis.address, *common, "--resume")
    assert done.returncode == 0, done.printed
    assert f"{total} records, 0 bad" in done.printed
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [line["slot"] for line in log] == list(range(len(log)))
    assert log[-1]["seen"] == total


@pytest.mark.slow
def test_what_is_saved_on_a_signal_is_acknowledged(tmp_path: Path, redis: Redis) -> None:
    """Another consumer claims what one that left for good has not acknowledged."""
    from redis import Redis as Client

    redis.produce(0, threading.Event(), 600)
    columns = ["--inputs", "a", "--label", "kind", "--classes", "0", "1", "--id", "id"]
    ended = run_command(
        *("stream", redis.address, *columns, "--out", tmp_path / "run", "--scale-rows", "50"),
        stop=signal.SIGTERM, after=20,
    )  # fmt: skip
    assert ended.returncode == 128 + signal.SIGTERM, ended.printed
    with (tmp_path / "run" / "log.jsonl").open() as file:
        seen = json.loads(file.readlines()[-1])["seen"]
    with Client(port=redis.port) as client:
        left = client.xpending("rows", "trainer")
    assert left["min"].decode() == f"{seen + 1}-0"  # the first that is in no state


def test_rows_of_doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of one's own gives what numpy gives, which is doubles."""
    monkeypatch.chdir(tmp_path)
    Path("doubles.py").write_text(
        "import numpy as np\n\n"
        "def to_row(record):\n"
        "    return np.array([record['a'], record['b']]), int(record['kind'] == 'bee')\n"
    )
    rows = write_rows(tmp_path / "rows.jsonl", 300)
    wanted = ["--rows", "doubles:to_row", "--classes", "ant", "bee", "--slots", 30]
    assert stream(rows, *wanted, "--out", tmp_path / "run") == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_mixed_columns_are_learned_from_the_first_records_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = tmp_path / "rows.jsonl"
    with rows.open("w") as file:
        for row in range(400):
            record = {"town": ("Bern", "Rome")[row % 2], "day": f"2024-0{1 + row % 9}-11"}
            record |= {"a": "junk" if row == 300 else rng.normal(), "kind": ("ant", "bee")[row % 2]}
            if row % 7 == 0:
                del record["a"]
            file.write(json.dumps(record) + "\n")
    columns = ["--label", "kind", "--classes", "ant", "bee", "--kind", "day=category"]
    assert stream(rows, *columns, "--out", tmp_path / "mlp", "--model", "mlp") == 2
    assert "--model mlp takes numbers, and 'town' is category" in capsys.readouterr().err
    once, twice = tmp_path / "once", tmp_path / "twice"
    assert stream(rows, *columns, "--out", once) == 0
    assert stream(rows, *columns, "--out", twice, "--slots", 15) == 0
    schema = read_schema(twice / "schema.json")
    assert {column.name: column.kind for column in schema.columns} == {
        "town": "category", "day": "category", "a": "number",
    }  # fmt: skip
    (twice / "schema.json").unlink()  # the checkpoint has it
    assert stream(rows, *columns, "--out", twice, "--resume") == 0
    for name in ("model.safetensors", "suspects.csv", "schema.json"):
        assert (once / name).read_bytes() == (twice / name).read_bytes()
    (rejected,) = (once / "rejects.jsonl").read_text().splitlines()
    assert "a is not of kind number: junk" in rejected
