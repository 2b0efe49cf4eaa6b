"""What ranks cost and keep: equal picks, agreement, bytes on the wire, killed and started again.

python -m benchmarks.ranks [--parts PART ...] [--trials 20] [--page]

Every part starts jobs of its own by torchrun. Files go to results/scale, tables into docs/scale.md.
Run nothing else meanwhile: two ranks want two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student

from benchmarks.rank_jobs import SELECTORS, WIDTH
from tamis.lab.pages.measurements import Line, Row, machine, read, save, save_rows, verdict
from tamis.lab.pages.scale_page import COST, FOLDER, MODEL, PAGE, WIRE, fill
from tests.support.ranks import torchrun
from tests.support.ranks.torchrun import finish, kill, launch, wait_for

ALL_SAMPLES, READ, PICKED = 10_000_000_000, 64, 16
"""Of the model: samples of the stream, and rows that a worker reads and picks in a slot."""
PARAMETERS = 11_173_962
"""Numbers in a gradient of ResNet-18."""
TEN_GIGABITS = 1.25e9


def run_job(job: str, ranks: int = 2) -> Any:
    with tempfile.TemporaryDirectory() as name:
        return finish(
            launch(job, Path(name), ranks, module="benchmarks.rank_jobs"), job, Path(name)
        )


def picks(_: int) -> list[Row]:
    one, two = (run_job("picks", ranks) for ranks in (1, 2))
    rows = []
    for name in SELECTORS:
        chain = "equal" if one[name]["chain"] == two[name]["chain"] else "not equal"
        weights = "equal" if one[name]["weights"] == two[name]["weights"] else "not equal"
        slots = two[name]["slots"]
        rows.append((f"picks of 2 ranks and of 1, {name}, {slots} slots", chain, "equal"))
        rows.append((f"weights of 2 ranks and of 1, {name}, every bit", weights, "equal"))
    return rows


def kills(trials: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        unbroken = finish(launch("killed", Path(name)), "killed", Path(name))
    rng = random.Random(0)  # noqa: S311
    ends, noticed, again = [], [], []
    for trial in range(trials):
        with tempfile.TemporaryDirectory() as name:
            folder, victim = Path(name), rng.randrange(2)
            process = launch("killed", folder)
            wait_for(folder, rng.randrange(10, 130), process)
            killed = kill(folder, victim)
            process.communicate()
            ends.append(time.time() - killed)
            started = time.time()
            restarted = finish(launch("killed", folder), "killed", folder)
            again.append((time.time() - started, restarted == unbroken))
            print(f"kill {trial + 1}: job over after {ends[-1]:.1f} s, {again[-1]}", flush=True)
    for _ in range(max(1, trials // 4)):
        noticed.append(notice(rng))
    good = sum(equal for _, equal in again)
    seconds = sorted(seconds for seconds, _ in again)
    return [
        (f"job started again after kill -9 of a rank, of {trials}", f"{good}", f">= {trials}"),
        ("seconds from the kill to the end of the job, most", f"{max(ends):.1f}", "<= 10"),
        ("seconds until the other rank notices by itself, most", f"{max(noticed):.2f}", "<= 10"),
        ("seconds of the second start to its end, median", f"{seconds[len(seconds) // 2]:.1f}", ""),
    ]


def in_place(trials: int) -> list[Row]:
    """What comes of it where torchrun restarts the workers by itself."""
    back, tried, limit = 0, max(1, trials // 4), 60
    for _ in range(tried):
        with tempfile.TemporaryDirectory() as name:
            process = launch("killed", Path(name), restarts=3)
            wait_for(Path(name), 40, process)
            kill(Path(name), 1)
            try:
                process.communicate(timeout=limit)
                back += process.returncode == 0
            except subprocess.TimeoutExpired:
                process.terminate()
                process.communicate()
    what = f"for comparison: back within {limit} s by torchrun --max-restarts=3, of {tried}"
    return [(what, str(back), "")]


def notice(rng: random.Random) -> float:
    """Seconds until a rank that nobody watches over knows that the other is gone."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as name:
        free.bind(("127.0.0.1", 0))
        port, folder, victim = free.getsockname()[1], Path(name), rng.randrange(2)
        free.close()
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        command = [sys.executable, "-m", torchrun.__name__, "killed", name]
        processes = [
            subprocess.Popen(
                command,
                env=os.environ | here | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
                stderr=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        wait_for(folder, 20, processes[0])
        killed = kill(folder, victim)
        for process in processes:
            process.wait(60)
        return float((folder / "lost").read_text()) - killed


def cost(_: int) -> list[Row]:
    lines = run_job("cost")
    save(FOLDER / "cost.csv", (*COST, "machine"), [line | {"machine": machine()} for line in lines])
    return [
        (
            f"agreement as a share of a slot, {line['model']}, {line['selector']},"
            f" every {line['every']}",
            line["agreement"],
            "<= 0.1",
        )
        for line in lines
    ]


def wire(_: int) -> list[Row]:
    lines = run_job("wire")
    save(FOLDER / "wire.csv", WIRE, lines)
    rows = []
    for selector in SELECTORS:
        mine = [int(line["all"]) for line in lines if line["selector"] == selector]
        grown = mine[-1] / mine[0]
        rows.append(
            (f"bytes a slot at 100,000 rows held over 1,000, {selector}", f"{grown:.3f}", "<= 1.02")
        )
    return rows


def model(_: int) -> list[Row]:
    """Work out what more workers would cost, from what was measured here."""
    found = run_job("constants")
    save_rows(
        FOLDER / "constants.csv", [(name, f"{value:.3e}", "") for name, value in found.items()]
    )
    lines = [expect(found, workers, every) for workers in (2, 10, 100, 1000) for every in (1, 100)]
    save(FOLDER / "model.csv", MODEL, lines)
    return []


def expect(found: dict[str, float], workers: int, every: int) -> Line:
    """Follow a ring of workers: its hops, and the bytes that go past each."""
    k = PICKED * workers
    candidates, pool = 4 * k, max(1024, 4 * k)
    pool_bytes, view_bytes, gradient_bytes = 40 * pool, 4 * WIDTH * candidates, 4 * PARAMETERS
    hops = workers - 1
    message, byte = found["gather_message_s"], 1 / TEN_GIGABITS
    each = (found["select_4096_s"] - found["select_512_s"]) / (4_096 - 512)
    met = 2 * hops * message + (pool_bytes + view_bytes) * byte * hops / workers
    own = PICKED * 4  # candidates of a shard that picks by itself
    select = each * (candidates / every + own * (1 - 1 / every))
    agreement = met / every
    gradient = 2 * hops * message + 2 * gradient_bytes * byte * hops / workers
    slot = agreement + gradient + select
    return {
        "workers": str(workers),
        "every": str(every),
        "k": str(k),
        "pool_bytes": f"{pool_bytes / every:.0f}",
        "view_bytes": f"{view_bytes / every:.0f}",
        "gradient_bytes": str(2 * gradient_bytes),
        "agreement_s": f"{agreement:.4f}",
        "gradient_s": f"{gradient:.4f}",
        "select_s": f"{select:.4f}",
        "slot_s": f"{slot:.4f}",
        "agreement": f"{agreement / slot:.3f}",
        "hours": f"{ALL_SAMPLES / (READ * workers) * slot / 3600:.1f}",
    }


def on_ray(_: int) -> list[Row]:
    """The demo's stream on two workers of Ray and on one machine, seed by seed."""
    done = subprocess.run(
        [sys.executable, "examples/ray_train.py", "--seeds", "10"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found = json.loads(done.stdout.splitlines()[-1])
    ray, single = (torch.tensor(found[name], dtype=torch.float64) for name in ("ray", "single"))
    apart, seeds = ray - single, len(ray)
    error = (apart.std() / seeds**0.5).item()
    noise = float(student.ppf(0.975, seeds - 1)) * error
    word = "within noise" if apart.mean().abs() <= noise else "apart"
    return [
        (f"accuracy on 2 workers of Ray, mean of {seeds} seeds", f"{ray.mean():.4f}", ""),
        (f"accuracy of one trainer, mean of {seeds} seeds", f"{single.mean():.4f}", ""),
        ("their difference, and half of its 95% interval", f"{apart.mean():.4f}, {noise:.4f}", ""),
        ("2 workers of Ray against one trainer", word, "within noise"),
    ]


PARTS: dict[str, Callable[[int], list[Row]]] = {
    "picks": picks, "wire": wire, "model": model, "cost": cost, "kills": kills,
    "in_place": in_place, "ray": on_ray,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=20, help="kills (default 20)")
    parser.add_argument("--page", action="store_true", help="only write the page from the files")
    options = parser.parse_args()
    rows = {
        row["what"]: (row["what"], row["measured"], row["bar"])
        for row in read(FOLDER / "results.csv")
    }
    for part in [] if options.page else options.parts:
        for row in PARTS[part](options.trials):
            print(*row, verdict(row[1], row[2]), sep=" | ", flush=True)
            rows[row[0]] = row
        save_rows(FOLDER / "results.csv", list(rows.values()))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
