"""`tamis train` and `tamis stream` over ranks: one run, as on one process with the same shards."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

import pytest
import torch
from safetensors.torch import load_file

from tamis.cli.main import main
from tamis.distributed import RankCheckpoints, Ranks
from tamis.distributed.reading import ShardReader
from tamis.runs import Decision, Decisions, RunFiles, read_metadata
from tamis.sources import Feed
from tests.support.brokers import GROUP, KafkaMock, Nats, Redis
from tests.support.ranks.processes import together
from tests.support.wait import wait_until

ROWS, PER_SLOT, SLOTS = 1600, 2, 500
CLASSES = ("ant", "bee", "cow")
SAME = (
    "model.safetensors", "suspects.csv", "suspects.jsonl", "neighbours.jsonl", "tracked.jsonl",
    "alarms.jsonl", "rejects.jsonl", "audit.jsonl", "schema.json",
)  # fmt: skip
FEW = ["--rows-per-slot", str(PER_SLOT), "--k", "8", "--capacity", "600", "--save-every", "50"]
STREAM = ["--inputs", "a", "b", "c", "--classes", *CLASSES, "--scale-rows", "50"]
Command = Callable[..., list[str]]


def rows() -> list[dict[str, str]]:
    """Return points of three classes, a third of the labels wrong, some without a number."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (ROWS,), generator=generator)
    points = 3 * torch.eye(3)[labels] + torch.randn(ROWS, 3, generator=generator)
    wrong = torch.rand(ROWS, generator=generator) < 0.3
    given = torch.where(wrong, (labels + 1) % 3, labels).tolist()
    found = []
    for number, ((a, b, c), kind) in enumerate(zip(points.tolist(), given, strict=True)):
        cells = {"a": str(a), "b": "none" if number % 40 == 9 else str(b), "c": str(c)}
        found.append({"name": f"row-{number}", **cells, "kind": CLASSES[kind]})
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    records = rows()
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    (folder / "logs").mkdir()
    for part in range(6):
        lines = (json.dumps(row) + "\n" for row in records[part::6])
        (folder / "logs" / f"{part}.jsonl").write_text("".join(lines))
    decisions = Decisions(folder / "given.jsonl")
    for number in range(0, ROWS, 50):
        decisions.decide(Decision(f"row-{number}", "relabel", "ant"), sync=False)
        decisions.decide(Decision(f"row-{number + 1}", "drop"), sync=False)
    return folder


@pytest.fixture(params=["train", "stream"])
def command(request: pytest.FixtureRequest, place: Path) -> Command:
    """Return the command line of either command on the same rows."""
    source = place / ("rows.csv" if request.param == "train" else "logs")
    more = [] if request.param == "train" else STREAM
    start = [request.param, str(source), "--label", "kind", "--id", "name", *more, *FEW]
    given = ["--corrections", str(place / "given.jsonl")]
    return lambda out, *words: [*start, *given, "--out", str(out), *map(str, words)]


def work(ranks: Ranks, words: list[str]) -> int:
    """Be one rank of a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return main(words)


def on_two(words: Sequence[str]) -> None:
    assert together(work, 2, [*words, "--workers", "2"]) == [0, 0]


def assert_same(one: Path, other: Path) -> None:
    for name in SAME:
        assert content(one / name) == content(other / name), name
    assert log_of(one) == log_of(other)
    assert read_metadata(one).wrong == read_metadata(other).wrong


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def log_of(out: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (out / RunFiles.log).read_text().splitlines()]
    return [{key: line[key] for key in line if "seconds" not in key} for line in lines]


def test_two_workers_are_one_process_with_the_same_shards(command: Command, tmp_path: Path) -> None:
    """Picks show in loss, weights and counts of every slot; decisions are of before and after."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(command(one, "--slots", SLOTS, "--shards", 2)) == 0
    on_two(command(two, "--slots", SLOTS))
    assert_same(one, two)
    assert len(log_of(one)) >= 400
    assert (one / RunFiles.suspects).stat().st_size > 1000


def test_another_number_of_workers_takes_the_shards_over(command: Command, tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    assert main(command(unbroken, "--slots", 200, "--shards", 2)) == 0
    on_two(command(broken, "--slots", 70))
    assert main(command(broken, "--slots", 130, "--resume", "--workers", 1)) == 0
    on_two(command(broken, "--slots", 200, "--resume"))
    assert_same(unbroken, broken)


def test_workers_hold_rows_on_disk_as_in_memory(command: Command, tmp_path: Path) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    assert main(command(memory, "--slots", 120, "--shards", 2)) == 0
    on_two(command(disk, "--slots", 70, "--on-disk"))
    assert main(command(disk, "--slots", 120, "--on-disk", "--resume", "--workers", 1)) == 0
    assert_same(memory, disk)
    assert list((disk / RunFiles.checkpoints).glob("*/shard-1/*.blocks"))


@pytest.mark.slow
def test_one_rank_prints_the_results(
    command: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = command(tmp_path / "run", "--slots", 10, "--workers", 2, "--json")
    assert finish(words, out=None) == 0
    assert json.loads(capfd.readouterr().out)["slots"] == 10


def test_a_run_in_shards_is_not_resumed_without_them(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path / "run", "--slots", 20, "--shards", 2)) == 0
    assert main(command(tmp_path / "run", "--slots", 20, "--resume")) == 2
    assert "was trained in shards: resume it with --workers" in capsys.readouterr().err
    assert main(command(tmp_path / "alone", "--slots", 20)) == 0
    assert main(command(tmp_path / "alone", "--slots", 20, "--resume", "--shards", 2)) == 2
    assert "was not made by workers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("--device", "cuda"), ("--annotator", "who"), ("--max-classes", "9"), ("--window", "3")],
)
def test_what_workers_cannot_do_is_refused(
    words: tuple[str, str], place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["stream", str(place / "logs"), "--label", "kind", "--out", str(tmp_path / "run")]
    assert main([*start, *words, "--workers", "2"]) == 2
    assert f"{words[0]} is not for --workers yet" in capsys.readouterr().err


def test_shards_that_have_rows_are_waited_for_however_slow_reading_is(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without end is left out of a slot where it has nothing, not where it is slow."""
    start = ["stream", str(place / "logs"), "--label", "kind", "--id", "name", *STREAM, *FEW]
    start += ["--slots", "300", "--shards", "2"]
    assert main([*start, "--out", str(tmp_path / "once")]) == 0
    read = ShardReader._next

    def slowly(reader: ShardReader) -> object:
        sleep(0.005 if isinstance(reader.stream, Feed) and reader.stream.part.number else 0.0)
        return read(reader)

    monkeypatch.setattr(ShardReader, "_next", slowly)
    monkeypatch.setattr("tamis.distributed.reading.WAIT", 0.0)
    monkeypatch.setattr("tamis.distributed.stream.PAUSE", 0.001)
    assert main([*start, "--out", str(tmp_path / "followed"), "--follow"]) == 0
    assert_same(tmp_path / "once", tmp_path / "followed")


@contextmanager
def launched(
    words: Sequence[str], out: int | None = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process that is ended in any case, and with it its ranks."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tamis", *words],
        stdout=out, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def finish(words: Sequence[str], out: int | None = subprocess.DEVNULL) -> int:
    with launched(words, out) as process:
        return process.wait()


def ranks_of(out: Path) -> dict[int, int]:
    """Return the process ids of the ranks of a run, by rank, whoever has started them."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if str(out).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                lines = (process / "environ").read_bytes().split(b"\0")
                named = dict(line.split(b"=", 1) for line in lines if b"=" in line)
                if b"RANK" in named:
                    found[int(named[b"RANK"])] = int(process.name)
    return found


def wait_for_slot(out: Path, slot: int, process: subprocess.Popen[bytes]) -> None:
    saved = RankCheckpoints(out / RunFiles.checkpoints)

    def there() -> bool:
        assert process.poll() is None
        return any(at >= slot for at in saved.slots())

    wait_until(there, what=f"a checkpoint of slot {slot}")


@pytest.mark.slow
def test_dead_ranks_are_started_again_and_ctrl_c_saves(command: Command, tmp_path: Path) -> None:
    """By torchrun's own launcher: a worker is killed, then the first rank, then Ctrl-C."""
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    assert main(command(unbroken, "--slots", SLOTS, "--shards", 2)) == 0
    words = command(broken, "--slots", SLOTS, "--workers", 2)
    with launched(words) as process:
        for rank, slot in ((1, 50), (0, 150)):
            wait_for_slot(broken, slot, process)
            os.kill(ranks_of(broken)[rank], signal.SIGKILL)
        wait_for_slot(broken, 250, process)
        process.send_signal(signal.SIGINT)
        assert process.wait() in (0, 130)
    assert finish([*words, "--resume"]) == 0
    assert_same(unbroken, broken)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broker", [Nats, lambda folder: KafkaMock(folder, 2)], ids=["nats", "kafka"]
)
@pytest.mark.skipif(bool(Nats.missing()), reason=Nats.missing())
def test_brokers_are_read_in_parts(
    broker: Callable[[Path], Nats | KafkaMock], tmp_path: Path
) -> None:
    """Every other message of NATS, and every other partition of Kafka, is a shard's."""
    server, rows_sent = broker(tmp_path / "server"), 1000
    try:
        server.produce(0, threading.Event(), rows_sent)
        words = ["--inputs", "a", "b", "--label", "kind", "--id", "id", "--classes", "0", "1"]
        words += [*FEW, "--capacity", "4000", "--scale-rows", "50", "--linger", "inf"]
        one, two = tmp_path / "one", tmp_path / "two"

        def command(out: Path, slots: int, *more: str) -> list[str]:
            address = server.address.replace(GROUP, out.name)
            return ["stream", address, *words, "--slots", str(slots), "--out", str(out), *more]

        assert main(command(one, 200, "--shards", "2")) == 0
        on_two(command(two, 70))
        assert main(command(two, 130, "--resume", "--workers", "1")) == 0
        on_two(command(two, 200, "--resume"))
        assert_same(one, two)
        ids = held_ids(two)
        assert len(ids) == len(ids.unique()) == 200 * 2 * PER_SLOT
    finally:
        server.close()


def held_ids(out: Path) -> torch.Tensor:
    """Return the ids of the rows in the newest checkpoint."""
    newest = RankCheckpoints(out / RunFiles.checkpoints).slots()[-1]
    folder = out / RunFiles.checkpoints / f"{newest:012d}"
    parts = folder.glob("shard-*/*/tensors.safetensors")
    return torch.cat([load_file(part)["/run/buffer/rows/ids"] for part in parts])


@pytest.mark.slow
@pytest.mark.timeout(2400)  # a cluster of a dozen processes is started
def test_workers_of_ray_are_one_process_too(command: Command, tmp_path: Path) -> None:
    """On a cluster of its own; torchrun's workers continue."""
    pytest.importorskip("ray")
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(command(one, "--slots", 120, "--shards", 2)) == 0
    assert finish(command(two, "--slots", 60, "--workers", 2, "--ray", "local")) == 0
    assert not ranks_of(two)
    on_two(command(two, "--slots", 120, "--resume"))
    assert_same(one, two)


@pytest.mark.parametrize("words", [("--ray", "local"), ("--ray", "nowhere:1", "--workers", "2")])
def test_ray_needs_workers_and_a_cluster(
    words: tuple[str, ...], place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    start = ["stream", str(place / "logs"), "--label", "kind", "--out", str(tmp_path / "run")]
    assert main([*start, *words]) == 2
    error = capsys.readouterr().err
    assert "--ray needs --workers" in error or "no cluster can be reached" in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(bool(Redis.missing()), reason=Redis.missing())
def test_consumers_of_a_group_are_shards(tmp_path: Path) -> None:
    """Entries that each consumer was sent are its shard; none is trained on twice after a kill."""
    import redis

    server = Redis(tmp_path)
    client = redis.Redis(port=server.port)
    try:
        for group in ("one", "two"):
            client.xgroup_create("rows", group, "0", mkstream=True)
        records = rows()[:1000]
        for row in records:
            client.xadd("rows", {**row, "b": row["b"].replace("none", "0")})
        for group in ("one", "two"):
            for turn in range(100):
                client.xreadgroup(group, f"tamis-{turn % 2}", {"rows": ">"}, 10)
        words = [*("--label", "kind", "--id", "name"), *STREAM, *FEW, "--capacity", "4000"]
        end = ["--slots", "250", "--patience", "10", "--linger", "inf"]
        address = f"{server.url}?stream=rows&group="
        one, two = tmp_path / "one", tmp_path / "two"
        assert (
            main(["stream", f"{address}one", *words, *end, "--out", str(one), "--shards", "2"]) == 0
        )
        words = ["stream", f"{address}two", *words, *end, "--out", str(two), "--workers", "2"]
        with launched(words) as process:
            wait_for_slot(two, 100, process)
            os.kill(ranks_of(two)[1], signal.SIGKILL)
            assert process.wait() == 0
        assert_same(one, two)
        ids = held_ids(two)
        assert len(ids) == len(ids.unique()) == len(records)
        assert client.xpending("rows", "two")["pending"] == 0
    finally:
        server.close()
