"""What a rank does in python -m benchmarks.ranks: one job at a time, begun by torchrun.

python -m benchmarks.rank_jobs JOB FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from benchmarks.timing import ROUNDS, race, ratio
from tamis import ITLM, OGRS, ModelView, Naive, Plausible, Samples, Sliding
from tamis.distributed import Ranks, RankTrainer
from tamis.distributed.pool import AT_CLASSES, COLUMNS
from tamis.lab.pages.measurements import Line
from tamis.models import mlp, resnet18, start
from tamis.selectors import Selector
from tests.support.ranks.torchrun import Job, be_rank, end_of, train_on_digits

SELECTORS: dict[str, Callable[[], Selector]] = {
    "Naive": Naive, "ITLM": ITLM, "OGRS": OGRS, "Plausible": Plausible,
}  # fmt: skip
WORKLOADS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], int, int, int]] = {
    # factory, shape of an input, k, rows held by a shard, slots timed at a time
    "MLP, 784 inputs, k = 32": (mlp, (784,), 32, 2_000, 20),
    "MLP, 784 inputs, k = 256": (mlp, (784,), 256, 2_000, 10),
    "ResNet-18, 32 x 32 x 3, k = 32": (resnet18, (3, 32, 32), 32, 300, 1),
}
SELDOM = 10
CLASSES = 10
WIDTH = 512
"""Numbers in the features of a row of ResNet-18."""


class Mirror(Ranks):
    """Ranks that agree with themselves: what selection needs does not cross, gradients do.

    The work is the same, so that what it saves is what agreement costs. Rows of the other ranks
    are made of this one's, under other ids; what is seen of them was seen of these before, each
    number in a row of its own. `Plausible` finds fewer of them plausible and so has less to train
    on here: what agreement costs it is a little less than the difference.
    """

    def __init__(self, number: int, size: int) -> None:
        super().__init__(number, size)
        self._seen: dict[int, Tensor] = {}

    def gather(
        self, name: str, mine: Tensor, meanwhile: Callable[[], None] | None = None
    ) -> Tensor:
        if name not in ("pool", "views"):
            return super().gather(name, mine, meanwhile)
        if meanwhile:
            meanwhile()
        everyone = mine.repeat(self.size, *[1] * mine.dim())
        for number in range(self.size):
            if number == self.number:
                continue
            if name == "views":
                seen = self._seen.get(number)
                if seen is None or len(seen) < len(mine):
                    seen = self._seen[number] = shuffle(mine, number)
                everyone[number] = seen[: len(mine)]
            else:
                first, width = split_record(mine.shape[-1])
                everyone[number, :, first + width : first + 2 * width] += number * 10**12
        return everyone


def shuffle(rows: Tensor, seed: int) -> Tensor:
    """Put every number into another row."""
    generator = torch.Generator().manual_seed(seed)
    return rows.gather(0, torch.rand(rows.shape, generator=generator).argsort(dim=0))


def split_record(length: int) -> tuple[int, int]:
    """Return where the columns of a shard's record begin, and how many rows it holds."""
    first = AT_CLASSES + 2 * CLASSES
    return first, (length - first) // COLUMNS


def make_up(shard: int, slots: int, rows: int, shape: tuple[int, ...]) -> Iterator[Samples]:
    generator = torch.Generator().manual_seed(shard)
    for slot in range(slots):
        inputs = torch.randn(rows, *shape, generator=generator)
        labels = torch.randint(10, (rows,), generator=generator)
        yield Samples.of(inputs, labels, 10**9 * shard + rows * slot)


def job_picks(ranks: Ranks, folder: Path) -> dict[str, Any]:
    ends = {}
    for name, selector in SELECTORS.items():
        trainer, read_shard = train_on_digits(ranks, selector())
        for _ in trainer.run(*map(read_shard, trainer.own)):
            pass
        ends[name] = end_of(trainer)
    return ends


def job_cost(ranks: Ranks, folder: Path) -> list[Line]:
    return [line for name in WORKLOADS for line in cost_of(ranks, name)]


def cost_of(ranks: Ranks, name: str) -> list[Line]:
    """Agreement as a share of a slot: the slot beside one in which nothing is agreed."""
    factory, shape, k, held, many = WORKLOADS[name]
    mirror = Mirror(ranks.number, ranks.size)
    contenders: dict[Any, Callable[[], object]] = {}
    settings = [("Plausible", 1)]
    if many > 1:  # a slot of the others takes too long
        settings += [("OGRS", 1), ("Naive", 1), ("Plausible", SELDOM)]
    for kind in (ranks, mirror):
        for selector, every in settings:
            model = start(factory, shape, 10, 0)
            trainer = RankTrainer(
                kind,
                model,
                torch.optim.SGD(model.parameters(), 0.01),
                SELECTORS[selector](),
                buffer=lambda shard: Sliding(held),
                k=k,
                every=every,
                window="average",
            )
            stream = make_up(ranks.number, 10**9, 8, shape)
            trainer.step(next(make_up(100 + ranks.number, 1, held, shape)))
            contenders[kind is ranks, selector, every] = partial(
                play, trainer, stream, max(many, every)
            )
    model = DistributedDataParallel(start(factory, shape, 10, 0))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    stream = make_up(ranks.number, 10**9, k // ranks.size, shape)
    contenders["ddp"] = partial(plain, model, optimizer, stream, many)
    times = race(contenders, ROUNDS if many == 1 else 2 * ROUNDS, dist.barrier)
    lines = []
    for selector, every in settings:
        ours, alone = (
            times[agreed, selector, every] / max(many, every) for agreed in (True, False)
        )
        plainly = times["ddp"] / many
        lines.append(
            {
                "model": name,
                "selector": selector,
                "every": str(every),
                "slot_ms": f"{1000 * ours.median():.2f}",
                "agreement_ms": f"{1000 * (ours - alone).median():.2f}",
                "agreement": str(ratio(ours - alone, ours)),
                "over_ddp": str(ratio(ours, plainly)),
                "ddp_ms": f"{1000 * plainly.median():.2f}",
            }
        )
    return lines


def play(trainer: RankTrainer, stream: Iterator[Samples], slots: int) -> None:
    for _ in range(slots):
        trainer.step(next(stream))


def plain(
    model: nn.Module, optimizer: torch.optim.Optimizer, stream: Iterator[Samples], slots: int
) -> None:
    """Steps of plain DDP on whatever comes."""
    for _ in range(slots):
        batch = next(stream)
        optimizer.zero_grad()
        cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()


def job_wire(ranks: Ranks, folder: Path) -> list[Line]:
    """Bytes that a rank sends in a slot, by what they are for, over rows held."""
    lines, slots = [], 50
    for selector in SELECTORS:
        for held in (1_000, 10_000, 100_000):
            model = start(mlp, (64,), 10, 0)
            counted = Ranks(ranks.number, ranks.size)
            trainer = RankTrainer(
                counted,
                model,
                torch.optim.SGD(model.parameters(), 0.01),
                SELECTORS[selector](),
                buffer=lambda shard, held=held: Sliding(held),
                window="average",
            )
            trainer.step(next(make_up(ranks.number, 1, held, (64,))))
            counted.sent.clear()
            dist.barrier()
            before = on_loopback()
            play(trainer, make_up(10 + ranks.number, slots, 8, (64,)), slots)
            dist.barrier()
            seen = (on_loopback() - before) / slots / ranks.size
            sent = {name: counted.sent[name] / slots for name in ("pool", "views", "gradients")}
            numbers = {**sent, "all": sum(sent.values()), "kernel": seen}
            line = {name: f"{value:.0f}" for name, value in numbers.items()}
            lines.append({"selector": selector, "held": str(held), **line})
    return lines


def on_loopback() -> int:
    """Bytes that the kernel has carried within this machine, or this network namespace."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def job_constants(ranks: Ranks, folder: Path) -> dict[str, float]:
    """Seconds of a message and of a byte, and of a selection."""
    sizes = (1_000, 100_000, 1_000_000, 4_000_000)
    found = {}
    for name in ("gather", "add"):
        medians = []
        for size in sizes:
            mine = torch.zeros(size // 4)
            run = partial(getattr(ranks, name), "trial", mine)
            medians.append(race({"it": run}, 60, dist.barrier)["it"].median())
        line = torch.tensor([[1.0, size] for size in sizes])
        weight = 1 / torch.stack(medians)[:, None]
        start_up, byte = torch.linalg.lstsq(line * weight, torch.ones(len(sizes), 1)).solution
        found[f"{name}_message_s"], found[f"{name}_byte_s"] = start_up.item(), byte.item()
    pool = next(make_up(0, 1, 8_192, (WIDTH,)))
    model = start(mlp, (WIDTH,), 10, 0)
    for count in (512, 4_096):
        view, generator = ModelView(model), torch.Generator().manual_seed(0)
        rule = Plausible()
        run = partial(rule.select, pool, view, count // 4, generator)
        found[f"select_{count}_s"] = race({"it": run}, 10)["it"].median().item()
    return found


JOBS: dict[str, Job] = {
    "picks": job_picks, "cost": job_cost, "wire": job_wire, "constants": job_constants,
}  # fmt: skip


if __name__ == "__main__":
    be_rank(JOBS, sys.argv[1], Path(sys.argv[2]))
