"""Simulate a job of many ranks in one process, and check it against real ones and the model.

    python -m benchmarks.shards

Ranks are threads that run the code of real ranks, each with its model, its shard and its selection;
what crosses is counted, and handed over in memory. Bytes of 2 and 4 real ranks over gloo are those
that the kernel counts on the loopback device of a network of their own, without packet headers.
What gloo adds to each step of a ring is taken from 2 ranks, and holds for all others. Rows go to
results/scale/simulated.csv.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tamis.distributed import Ranks
from tamis.distributed.pool import AT_CLASSES, COLUMNS
from tamis.lab.pages.measurements import save_table
from tests.support.ranks.jobs import Job, points, trainer_of
from tests.support.ranks.processes import together

RESULTS = Path("results/scale/simulated.csv")
REAL, SIMULATED = (2, 4), (2, 4, 16, 64, 256)
FEW, MANY = 6, 26
CLASSES, POOL, ARRIVING, K, WIDTH = 3, 64, 2, 12, 25
"""Of the job of `trainer_of`; the last is its hidden units and their bias."""
HEADERS = 66
"""Bytes that Ethernet, IP and TCP add to a packet on the loopback device."""
INSIDE = "TAMIS_OWN_NETWORK"


class CountedRanks(Ranks):
    """Ranks that count how often they meet, by what for."""

    def __init__(self, number: int = 0, size: int = 1, device: str | torch.device = "cpu") -> None:
        super().__init__(number, size, device)
        self.rounds: Counter[str] = Counter()

    def gather(
        self, name: str, mine: Tensor, meanwhile: Callable[[], None] | None = None
    ) -> Tensor:
        self.rounds[name] += 1
        return super().gather(name, mine, meanwhile)

    def add(self, name: str, mine: Tensor) -> Tensor:
        self.rounds[name] += 1
        return super().add(name, mine)


class Exchange:
    """Hands what each thread has to all others."""

    def __init__(self, size: int) -> None:
        self.parts: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=600)

    def share(self, number: int, mine: Any) -> list[Any]:
        """Return the parts of all, once all are there."""
        self.parts[number] = mine
        self.barrier.wait()
        found = list(self.parts)
        self.barrier.wait()
        return found


class ThreadRanks(CountedRanks):
    """Ranks that are threads of one process; bytes are counted as those of real ones are."""

    def __init__(self, number: int, size: int, exchange: Exchange) -> None:
        super().__init__(number, size)
        self.exchange = exchange

    def gather(
        self, name: str, mine: Tensor, meanwhile: Callable[[], None] | None = None
    ) -> Tensor:
        if meanwhile:
            meanwhile()
        self.rounds[name] += 1
        self.sent[name] += (self.size - 1) * mine.nbytes
        return torch.stack(self.exchange.share(self.number, mine))

    def add(self, name: str, mine: Tensor) -> Tensor:
        self.rounds[name] += 1
        self.sent[name] += 2 * (self.size - 1) * mine.nbytes // self.size
        parts = self.exchange.share(self.number, mine.clone())
        return mine.copy_(torch.stack(parts).sum(dim=0))

    def share(self, tensors: Iterable[Tensor]) -> None:
        first = self.exchange.share(self.number, [one.detach().clone() for one in tensors])[0]
        with torch.no_grad():
            for one, other in zip(tensors, first, strict=True):
                one.copy_(other)


def work(ranks: Ranks, slots: int) -> tuple[dict[str, int], dict[str, int]]:
    """Train so many slots; return bytes sent and rounds, by what for."""
    counted = ranks if isinstance(ranks, CountedRanks) else CountedRanks.join()
    trainer = trainer_of(counted, Job("plausible", shards=counted.size))
    before = Counter(counted.sent), Counter(counted.rounds)
    for samples in points(counted.number, slots, ARRIVING):
        trainer.step(samples)
    return dict(counted.sent - before[0]), dict(counted.rounds - before[1])


def simulate(size: int, slots: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Run threads as ranks, and return what each has counted."""
    exchange, found = Exchange(size), [({}, {})] * size

    def run(number: int) -> None:
        try:
            found[number] = work(ThreadRanks(number, size, exchange), slots)
        except BaseException:
            exchange.barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def per_slot(few: list[Any], many: list[Any], at: int, extra: int) -> dict[str, float]:
    """Return what all ranks count in a slot, once predictions of all rows cross."""
    sums = [sum((Counter(one[at]) for one in run), Counter()) for run in (few, many)]
    return {name: (sums[1][name] - sums[0][name]) / extra for name in sums[1]}


def on_loopback() -> tuple[int, int]:
    """Return bytes and packets on the loopback device so far."""
    (line,) = (one for one in Path("/proc/net/dev").read_text().splitlines() if "lo:" in one)
    return int(line.split()[1]), int(line.split()[2])


def real(size: int) -> tuple[float, float]:
    """Return bytes of a slot over all ranks by the kernel, without headers, and rounds of one."""
    found, rounds = [], []
    for slots in (FEW, MANY):
        before = on_loopback()
        ends = together(work, size, slots)
        size_, packets = (now - then for now, then in zip(on_loopback(), before, strict=True))
        found.append(size_ - HEADERS * packets)
        rounds.append(sum(ends[0][1].values()))
    return (found[1] - found[0]) / (MANY - FEW), (rounds[1] - rounds[0]) / (MANY - FEW)


def modelled(size: int) -> tuple[int, int]:
    """Return bytes of a slot over all ranks by docs/scale.md: of the pool, and of gradients."""
    quota = max(1, POOL // size)
    record = 8 * (AT_CLASSES + 2 * CLASSES + COLUMNS * quota + 3 * ARRIVING)
    numbers = 6 * 24 + 24 + 24 * CLASSES + CLASSES + 2
    return size * (size - 1) * record, 2 * (size - 1) * 4 * numbers


def main() -> None:
    """Compare simulated ranks with real ones, and with the model."""
    if INSIDE not in os.environ:
        command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
        words = [*command, sys.executable, "-m", "benchmarks.shards"]
        sys.exit(subprocess.run(words, env=os.environ | {INSIDE: "1"}, check=False).returncode)
    torch.set_num_threads(1)
    lines: list[dict[str, Any]] = []
    added = 0.0
    for size in SIMULATED:
        few, many = (FEW, MANY) if size <= 16 else (4, 6)
        runs = [simulate(size, slots) for slots in (few, many)]
        sent = per_slot(*runs, 0, many - few)
        met_for = per_slot(*runs, 1, many - few)
        rounds = sum(met_for.values()) / size
        steps = (size - 1) * sum(met_for.values()) + (size - 1) * met_for["gradients"]
        kernel, met = real(size) if size in REAL else ("", "")
        pool, gradients = modelled(size)
        if size == min(REAL):
            added = (float(kernel) - sum(sent.values())) / steps
        lines.append({
            "ranks": size,
            "rounds": rounds,
            "real_rounds": met,
            "bytes": round(sum(sent.values())),
            "with_gloo": round(sum(sent.values()) + added * steps),
            "kernel": kernel and round(kernel),
            "pool": round(sent["pool"]),
            "pool_model": pool,
            "gradients": round(sent["gradients"]),
            "gradients_model": gradients,
            "views": round(sent.get("views", 0)),
        })  # fmt: skip
        print(lines[-1], flush=True)
    save_table(RESULTS, list(lines[0]), lines)


if __name__ == "__main__":
    main()
