"""Kill -9 workers and heads of a run at random moments, and compare with what was sent.

    python -m benchmarks.worker_kills --workers 20 --heads 5

`tamis stream --workers 2` trains on files of JSON lines, then on a Redis that is filled meanwhile.
A head is the first rank, which owns the run, or, in every other kill, the launcher: its command is
then given again, with --resume. Rows go to results/workers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

import redis
import torch
from safetensors.torch import load_file

from tamis.distributed import RankCheckpoints
from tamis.lab.pages.measurements import save_table
from tamis.runs import RunFiles

RESULTS = Path("results/workers/kills.csv")
CLASSES = ("ant", "bee", "cow")
STREAM = "rows"
COLUMNS = ["--inputs", "a", "b", "c", "--label", "kind", "--classes", *CLASSES, "--model", "mlp"]
PER_SLOT = 5


def records(count: int) -> list[dict[str, float | str]]:
    """Return rows of three classes, a fifth of the labels wrong; `a` is the number of the row."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (count,), generator=generator)
    points = 3 * torch.eye(3)[labels] + torch.randn(count, 3, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.2
    given = torch.where(wrong, (labels + 1) % 3, labels).tolist()
    rows = enumerate(zip(points.tolist(), given, strict=True))
    return [
        {"a": at, "b": point[0], "c": point[1], "kind": CLASSES[kind]} for at, (point, kind) in rows
    ]


def command(address: str, out: Path, rows: int, *more: str) -> list[str]:
    """Return the command of a run that holds all rows, so that they can be counted at its end."""
    return [
        *(sys.executable, "-m", "tamis", "stream", address, *COLUMNS, "--out", str(out)),
        *("--rows-per-slot", str(PER_SLOT), "--k", "8", "--capacity", str(4 * rows)),
        *("--save-every", "40", "--workers", "2", "--restarts", "40", *more),
    ]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a command."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        words, stdout=quiet, stderr=quiet, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


def ranks_of(parent: int) -> dict[int, int]:
    """Return the process ids of the ranks that a launcher has started, by rank."""
    found: dict[int, int] = {}
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            read = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        named = dict(line.split(b"=", 1) for line in read if b"=" in line)
        if b"RANK" in named:
            found[int(named[b"RANK"])] = int(child)
    return found


def trained_ids(out: Path, shards: int = 2) -> Counter[int]:
    """Return the numbers of the rows in the newest checkpoint: all that were trained on."""
    newest = (
        out
        / RunFiles.checkpoints
        / f"{RankCheckpoints(out / RunFiles.checkpoints).slots()[-1]:012d}"
    )
    found: Counter[int] = Counter()
    for shard in range(shards):
        (path,) = newest.glob(f"shard-{shard}/*/tensors.safetensors")
        found.update(load_file(path)["/run/buffer/rows/inputs"][:, 0].long().tolist())
    return found


def run_killed(words: list[str], out: Path, kills: list[str], draw: random.Random) -> int:
    """Run a command to its end with these kills; return how many of them came in time."""
    saved, done = RankCheckpoints(out / RunFiles.checkpoints), 0
    process, at = start(words), 0
    for kill in kills:
        while process.poll() is None and max(saved.slots(), default=0) <= at:
            sleep(0.05)
        sleep(draw.uniform(0, 0.4))
        if process.poll() is not None:
            break
        at = max(saved.slots(), default=0)
        ranks = ranks_of(process.pid)
        victim = {"worker": ranks.get(1), "head": ranks.get(0), "launcher": process.pid}[kill]
        if victim is None:
            continue
        os.kill(victim, signal.SIGKILL)
        done += 1
        if kill == "launcher":
            process.wait()
            for one in ranks.values():  # they notice, save and end; a lock is held until then
                while (
                    Path(f"/proc/{one}/cmdline").exists()
                    and Path(f"/proc/{one}/cmdline").read_bytes()
                ):
                    sleep(0.05)
            process = start([*words, "--resume"])
    if process.wait():
        raise RuntimeError(f"{out} ended with {process.returncode}")
    return done


def on_files(place: Path, rows: int, run: Callable[[list[str], Path], int]) -> dict[str, object]:
    """Kill a run on files; return rows sent and trained on, and if it equals one unbroken."""
    logs = place / "logs"
    logs.mkdir()
    sent = records(rows)
    for number in range(8):
        lines = (json.dumps(row) + "\n" for row in sent[number::8])
        (logs / f"part-{number}.jsonl").write_text("".join(lines))
    unbroken, broken = place / "unbroken", place / "broken"
    if start(command(str(logs), unbroken, rows)).wait():
        raise RuntimeError("the unbroken run has failed")
    done = run(command(str(logs), broken, rows), broken)
    same = all(
        (unbroken / name).read_bytes() == (broken / name).read_bytes()
        for name in (RunFiles.model, RunFiles.table, RunFiles.suspects, RunFiles.estimates)
    )
    return counted("files", done, rows, broken) | {"identical": same}


def on_redis(place: Path, rows: int, run: Callable[[list[str], Path], int]) -> dict[str, object]:
    """Kill a run on a Redis that is filled meanwhile."""
    from tests.support.brokers import Redis

    server, out = Redis(place), place / "redis"
    client = redis.Redis(port=server.port)
    sent = records(rows)

    def produce() -> None:
        for row in sent:
            client.xadd(STREAM, row)
            sleep(0.003)

    try:
        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        address = f"{server.url}?stream={STREAM}&group=g"
        done = run(command(address, out, rows, "--patience", "20"), out)
        thread.join()
    finally:
        server.close()
    return counted("redis", done, rows, out) | {"identical": ""}


def counted(source: str, kills: int, sent: int, out: Path) -> dict[str, object]:
    """Return a row of results."""
    found = trained_ids(out)
    return {
        "source": source,
        "kills": kills,
        "sent": sent,
        "trained": len(found),
        "twice": sum(count > 1 for count in found.values()),
    }


def main() -> None:
    """Kill a run on files and one on Redis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sources", nargs="+", default=["files", "redis"])
    options = parser.parse_args()
    draw = random.Random(0)  # noqa: S311
    kills = ["worker"] * options.workers
    kills += [("head", "launcher")[at % 2] for at in range(options.heads)]
    draw.shuffle(kills)
    found = []
    for source in options.sources:
        with TemporaryDirectory() as place:
            kind = {"files": on_files, "redis": on_redis}[source]
            row = kind(
                Path(place), options.rows, lambda words, out: run_killed(words, out, kills, draw)
            )
        found.append(row)
        print(row, flush=True)
    save_table(RESULTS, list(found[0]), found)


if __name__ == "__main__":
    main()
