"""Kill -9 workers and heads of a run at random moments, and compare with what was sent.

    python -m benchmarks.worker_kills --workers 20 --heads 5

`tamis stream --workers 2` trains on files of JSON lines, then on a Redis that is filled meanwhile.
A head is the first rank, which owns the run, or, in every other kill, the launcher: its command is
then given again, with --resume. In the part named elastic the launcher is killed twice, and two
workers become four, and then three. Rows go to results/workers.
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
from scipy.stats import t as student

from tamis.distributed import RankCheckpoints
from tamis.lab.pages.measurements import Row, machine, read, save_rows
from tamis.prediction import Predictor
from tamis.runs import RunFiles

KILLS = Path("results/workers/kills.csv")
CLASSES = ("ant", "bee", "cow")
STREAM = "rows"
COLUMNS = ["--inputs", "a", "b", "c", "--label", "kind", "--classes", *CLASSES, "--model", "mlp"]
PER_SLOT = 5
ELASTIC = (2, 4, 3)
"""Workers of one run, one after the other."""
SEEDS, ELASTIC_ROWS = 5, 4000

Run = Callable[[list[str], Path], Counter[str]]


def records(count: int, seed: int = 0, noise: float = 0.2) -> list[dict[str, float | str]]:
    """Return rows of three classes, a fifth of the labels wrong; `a` is the number of the row."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    points = 3 * torch.eye(3)[labels] + torch.randn(count, 3, generator=generator)
    wrong = torch.rand(count, generator=generator) < noise
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
        *("--save-every", "20", "--workers", "2", "--restarts", "40", *more),
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


def run_killed(words: list[str], out: Path, kills: list[str], draw: random.Random) -> Counter[str]:
    """Run a command to its end with these kills; return which of them came in time."""
    saved, done = RankCheckpoints(out / RunFiles.checkpoints), Counter[str]()
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
        done["worker" if kill == "worker" else "head"] += 1
        if kill == "launcher":
            process.wait()
            wait_for_end(ranks)
            process = start([*words, "--resume"])
    if process.wait():
        raise RuntimeError(f"{out} ended with {process.returncode}")
    return done


def wait_for_end(ranks: dict[int, int]) -> None:
    """Wait for ranks whose launcher is gone: they notice, save and end, and hold a lock until then.

    A process that has ended and that nobody has waited for has an empty command line.
    """
    for one in ranks.values():
        line = Path(f"/proc/{one}/cmdline")
        while line.exists() and line.read_bytes():
            sleep(0.05)


def write_files(place: Path, sent: list[dict[str, float | str]]) -> str:
    """Write rows to eight files, and return their folder."""
    logs = place / "logs"
    logs.mkdir()
    for number in range(8):
        lines = (json.dumps(row) + "\n" for row in sent[number::8])
        (logs / f"part-{number}.jsonl").write_text("".join(lines))
    return str(logs)


def on_files(place: Path, rows: int, run: Run) -> list[Row]:
    """Kill a run on files, and compare it with one that nothing has happened to."""
    logs = write_files(place, records(rows))
    unbroken, broken = place / "unbroken", place / "broken"
    finish(command(logs, unbroken, rows))
    done = run(command(logs, broken, rows), broken)
    same = all(
        (unbroken / name).read_bytes() == (broken / name).read_bytes()
        for name in (RunFiles.model, RunFiles.table, RunFiles.suspects, RunFiles.estimates)
    )
    what = "model, suspects and estimates, files, and those of an unbroken run"
    return [
        *counted("files", done, rows, broken),
        (what, "identical" if same else "different", "identical"),
    ]


def finish(words: list[str]) -> None:
    """Run a command to its end."""
    if start(words).wait():
        raise RuntimeError(f"{words} has failed")


def elastic(place: Path, rows: int, run: Run) -> list[Row]:
    """Change the number of workers of runs by kill -9, and compare with runs of two workers."""
    correct: list[tuple[float, float]] = []
    trained = twice = 0
    fresh = records(2000, seed=99, noise=0.0)
    table = {name: [row[name] for row in fresh] for name in fresh[0]}
    for seed in range(SEEDS):
        here = place / str(seed)
        here.mkdir()
        logs = write_files(here, records(rows, seed))
        unbroken, broken = here / "unbroken", here / "broken"
        finish(command(logs, unbroken, rows, "--shards", str(max(ELASTIC))))
        words = command(logs, broken, rows, "--shards", str(max(ELASTIC)))
        saved = RankCheckpoints(broken / RunFiles.checkpoints)
        for number, workers in enumerate(ELASTIC):
            process = start([*words, "--workers", str(workers), "--resume"])
            until = rows // PER_SLOT // max(ELASTIC) * (number + 1) // len(ELASTIC)
            while process.poll() is None and (
                number == len(ELASTIC) - 1 or max(saved.slots(), default=0) < until
            ):
                sleep(0.05)
            ranks = {} if process.poll() is not None else ranks_of(process.pid)
            if ranks:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_for_end(ranks)
        found = trained_ids(broken, max(ELASTIC))
        trained += len(found)
        twice += sum(count > 1 for count in found.values())
        one, other = (
            sum(guess == row["kind"] for guess, row in zip(guesses, fresh, strict=True))
            / len(fresh)
            for guesses in (Predictor(run).predict(table) for run in (unbroken, broken))
        )
        correct.append((one, other))
        print(f"elastic, seed {seed}: {one:.4f} unbroken, {other:.4f}", flush=True)
    before, after = torch.tensor(correct, dtype=torch.float64).unbind(dim=1)
    apart = after - before
    noise = float(student.ppf(0.975, SEEDS - 1)) * float(apart.std()) / SEEDS**0.5
    within = abs(float(apart.mean())) <= noise
    turns = ", then ".join(map(str, ELASTIC))
    return [
        (f"rows sent, {turns} workers, {SEEDS} seeds", str(SEEDS * rows), ""),
        (f"rows trained on, {turns} workers", str(trained), f">= {SEEDS * rows}"),
        (f"rows trained on twice, {turns} workers", str(twice), "<= 0"),
        ("accuracy of two workers, mean of the seeds", f"{before.mean():.4f}", ""),
        (f"accuracy of {turns} workers", f"{after.mean():.4f}", ""),
        ("their difference, and half of its 95% interval", f"{apart.mean():.4f}, {noise:.4f}", ""),
        (f"{turns} workers against two", "within noise" if within else "apart", "within noise"),
    ]


def on_redis(place: Path, rows: int, run: Run) -> list[Row]:
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
    return counted("Redis", done, rows, out)


def counted(source: str, kills: Counter[str], sent: int, out: Path) -> list[Row]:
    """Return what was killed, sent and trained on."""
    found = trained_ids(out)
    return [
        (f"kill -9 of a worker, {source}", str(kills["worker"]), ">= 20"),
        (f"kill -9 of the first rank or the launcher, {source}", str(kills["head"]), ">= 5"),
        (f"rows sent, {source}", str(sent), ""),
        (f"rows trained on, {source}", str(len(found)), f">= {sent}"),
        (f"rows trained on twice, {source}", str(sum(n > 1 for n in found.values())), "<= 0"),
    ]


SOURCES: dict[str, tuple[Callable[[Path, int, Run], list[Row]], int]] = {
    "files": (on_files, 10_000), "redis": (on_redis, 10_000), "elastic": (elastic, ELASTIC_ROWS),
}  # fmt: skip
"""What is done, and on how many rows."""


def main() -> None:
    """Kill a run on files and one on Redis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--rows", type=int, help="rows sent (default 10,000; elastic 4,000)")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    options = parser.parse_args()
    draw = random.Random(0)  # noqa: S311
    kills = ["worker"] * options.workers
    kills += [("head", "launcher")[at % 2] for at in range(options.heads)]
    draw.shuffle(kills)
    rows = {
        row["what"]: (row["what"], row["measured"], row["bar"])
        for row in read(KILLS)
        if "what" in row
    }
    for source in options.sources:
        part, count = SOURCES[source]
        with TemporaryDirectory() as place:
            found = part(
                Path(place), options.rows or count,
                lambda words, out: run_killed(words, out, kills, draw),
            )  # fmt: skip
        for row in [*found, ("machine", machine(), "")]:
            rows.pop(row[0], None)
            rows[row[0]] = row
            print(*row, sep=" | ", flush=True)
        save_rows(KILLS, list(rows.values()))


if __name__ == "__main__":
    main()
