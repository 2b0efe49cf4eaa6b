"""The claims about a GPU: no waiting, the same picks, what a slot costs, how far the scan is off.

python -m benchmarks.gpu --out FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import race, ratio
from tamis import OGRS, Execution, ModelView, Naive, Samples, Selector, Sliding, Trainer
from tamis.lab.ogrs_variants import OGRSVariant
from tamis.lab.pages.measurements import Row, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.models import mlp, resnet18, start
from tamis.selectors.ogrs.kernels import nearest_on_gpu, walk_on_gpu
from tamis.selectors.ogrs.projection import nearest_in_chunks, walk_in_steps
from tamis.streams import DATA_SETS, Constant, Replay, Symmetric

GPU = torch.device("cuda")
REPEATS = 20
CLAIMED = "OGRS, features kept, 16 renewed a slot"


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_scan(rows: int, width: int, chains: int, seed: int) -> tuple[Tensor, ...]:
    source = torch.Generator(GPU).manual_seed(seed)
    points = torch.randn(rows, width, generator=source, device=GPU)
    goals = points[:chains] + 0.3 * torch.randn(chains, width, generator=source, device=GPU)
    tax = torch.rand(chains, generator=source, device=GPU)
    excess = torch.randint(9, (rows,), generator=source, device=GPU).float() - 4
    return goals, points, points.square().sum(dim=1), tax, excess


def twins() -> list[Row]:
    """Kernels against their torch twins."""
    same = []
    for seed in range(50):
        rows, width, chains = 1000 + 37 * seed, 16 + 12 * seed, 1 + 5 * seed
        given = random_scan(rows, width, chains, seed)
        same.append((nearest_on_gpu(*given) == nearest_in_chunks(*given)).float().mean())
    walked = []
    for seed in range(50):
        source = torch.Generator(GPU).manual_seed(seed)
        size = 20 + 10 * seed
        costs = torch.randn(size, size, generator=source, device=GPU)
        excess = torch.randn(size, generator=source, device=GPU)
        gamma, starts = torch.tensor(0.2, device=GPU), torch.arange(size, device=GPU)
        paths = [way(costs, excess, gamma, starts, 10)[0] for way in (walk_on_gpu, walk_in_steps)]
        walked.append((paths[0] == paths[1]).float().mean())
    return [
        ("scan equals its torch twin, float32, 50 cases", f"{torch.stack(same).mean():.4f}", ""),
        ("walk equals its torch twin, 50 cases", f"{torch.stack(walked).mean():.4f}", ""),
    ]


def lower_precision(images: Tensor) -> list[Row]:
    """How often bfloat16 finds the same row, four neighbour distances from one to another."""
    points = images.flatten(1).to(GPU)
    order = torch.randperm(len(points), generator=generator(0)).to(GPU)
    near, far = points[order[:4096]], points[order[4096:8192]]
    apart = torch.cdist(near, near).fill_diagonal_(torch.inf).min(dim=1).values.mean()
    goals = near + 4 * apart * torch.nn.functional.normalize(far - near)
    free = torch.zeros(len(goals), device=GPU)
    excess = torch.zeros(len(points), device=GPU)
    exact = nearest_on_gpu(goals, points, points.square().sum(dim=1), free, excess)
    half = points.bfloat16()
    rough = nearest_on_gpu(goals, half, half.float().square().sum(dim=1), free, excess)
    return [
        ("bfloat16 scan finds the same row", f"{(exact == rough).float().mean():.4f}", ">= 0.98")
    ]


def same_picks() -> list[Row]:
    """The same seed on CPU and GPU."""
    model = start(mlp, (64,), 10, 0)
    inputs = torch.randn(5000, 64, generator=generator(1))
    pool = Samples.of(inputs, torch.randint(10, (5000,), generator=generator(2)))
    pool = replace(pool, uses=torch.randint(30, (5000,), generator=generator(3)))
    rules = {
        "default": OGRS(),
        "price active": OGRS(max_uses=1),
        "exact, inputs": OGRSVariant(candidates=None, starts="picks", space="inputs"),
    }
    rows: list[Row] = []
    for name, rule in rules.items():
        shares = []
        for seed in range(20):
            here = rule.select(pool, ModelView(model.cpu()), 64, generator(seed))
            there = rule.select(pool.to(GPU), ModelView(model.to(GPU)), 64, generator(seed))
            found = there.rows if there.weights is None else there.rows[there.weights > 0]
            shares.append(float(torch.equal(here.rows, found.cpu())))
        rows.append((f"same picks on CPU and GPU, {name}", f"{sum(shares) / 20:.4f}", ""))
    return rows


def make_trainer(
    selector: Selector,
    samples: Samples,
    k: int = 128,
    graphed: bool = False,
    refresh: int | None = None,
    **settings: object,
) -> Trainer:
    model = start(resnet18, tuple(samples.inputs.shape[1:]), 10, 0).to(GPU)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
    trainer = Trainer(
        model, optimizer, selector, Sliding(len(samples)), k=k,
        execution=Execution(GPU, torch.bfloat16, graphed, refresh), **settings,
    )  # fmt: skip
    for first in range(0, len(samples), 5000):
        trainer.step(samples[slice(first, first + 5000)])
    return trainer


def no_waiting(samples: Samples) -> list[Row]:
    """Slots under torch's own alarm for synchronisation."""
    rows: list[Row] = []
    few = samples[slice(0, 10_000)]
    for name, selector, settings in [
        ("naive", Naive(), {}),
        ("OGRS", OGRS(), {}),
        ("OGRS, features kept", OGRS(), {"refresh": 16}),
        ("OGRS, features kept, graphed", OGRS(), {"refresh": 16, "graphed": True}),
    ]:
        trainer = make_trainer(selector, few, **settings)
        for _ in range(8):
            trainer.step()
        torch.cuda.synchronize()
        waits = "none"
        torch.cuda.set_sync_debug_mode("error")
        try:
            for first in range(0, 640, 32):
                trainer.step(few[slice(first, first + 32)])
        except RuntimeError as error:
            waits = str(error).splitlines()[0]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        rows.append((f"waits for the device in 20 slots, {name}", waits, "none"))
    return rows


def play(trainer: Trainer, many: int) -> None:
    for _ in range(many):
        trainer.step()


def slots(samples: Samples, many: int = 40) -> list[Row]:
    """A slot of OGRS against a slot of naive training, ResNet-18, K = 128."""
    rows: list[Row] = []
    for graphed in (False, True):
        trainers = {
            "naive": make_trainer(Naive(), samples, graphed=graphed),
            "OGRS, passes of its own": make_trainer(OGRS(), samples, graphed=graphed),
            **{
                f"OGRS, features kept, {count} renewed a slot": make_trainer(
                    OGRS(), samples, graphed=graphed, refresh=count
                )
                for count in (8, 16, 32, 64)
            },
        }

        contenders = {name: partial(play, trainer, many) for name, trainer in trainers.items()}
        for run in contenders.values():
            run()
        times = race(contenders, wait=torch.cuda.synchronize)
        kind = "graphed" if graphed else "eager"
        naive = times["naive"]
        rows.append((f"naive slot, {kind}, ms", f"{1000 * naive.median() / many:.3f}", ""))
        for name in list(times)[1:]:
            bar = "<= 1.15" if graphed and name == CLAIMED else ""
            rows.append((f"{name}, {kind}, over naive", str(ratio(times[name], naive)), bar))
    return rows


def scan(rows_held: int = 1_000_000, width: int = 512, chains: int = 128) -> list[Row]:
    """The exact scan against the time that reading the points takes at best."""
    rows: list[Row] = []
    goals, points, norms, tax, excess = random_scan(rows_held, width, chains, 0)
    kinds = [
        ("bfloat16", points.bfloat16(), "highest"),
        ("float32, one pass of TF32", points, "high"),
        ("float32, three passes of TF32", points, "highest"),
    ]
    for name, held, precision in kinds:
        torch.set_float32_matmul_precision(precision)
        copy = torch.empty_like(held)
        times = race(
            {
                "scan": partial(again, nearest_on_gpu, goals, held, norms, tax, excess),
                "copy": partial(again, copy.copy_, held),
            },
            wait=torch.cuda.synchronize,
        )
        scanned, floor = times["scan"] / REPEATS, times["copy"] / REPEATS / 2  # a copy also writes
        speed = held.numel() * held.element_size() / floor.median() / 1e12
        what = f"scan of {rows_held:,} x {width}, K = {chains}, {name}"
        rows += [
            (f"{what}, ms", f"{1000 * scanned.median():.3f}", ""),
            (f"reading it at {speed:.2f} TB/s, ms", f"{1000 * floor.median():.3f}", ""),
            (f"{what}, over reading it", str(ratio(scanned, floor)), "<= 2"),
        ]
    torch.set_float32_matmul_precision("highest")
    return rows


def again(run: Callable[..., object], *given: Tensor) -> None:
    for _ in range(REPEATS):
        run(*given)


def learn(data: object, seen: int, seed: int = 0) -> list[Row]:
    """What kept features cost in purity and accuracy: CIFAR-10, half of the labels right."""
    rows: list[Row] = []
    stream = Replay(
        data.inputs,
        data.labels,
        Symmetric(10),
        Constant(0.5),
        rows_per_slot=len(data.labels),
        seed=seed,
    )
    samples = next(iter(stream)).to(GPU)
    for name, selector, settings in [
        ("naive", Naive(), {}),
        ("OGRS, passes of its own", OGRS(), {}),
        *(
            (f"OGRS, {count} renewed a slot", OGRS(), {"refresh": count})
            for count in (8, 16, 64, 256)
        ),
    ]:
        trainer = make_trainer(
            selector, samples, graphed=True, warm_up=500, ema=0.995, seed=seed, **settings
        )
        purity = []
        for number in range(seen):
            slot = trainer.step()
            if number >= 500:
                purity.append(slot.figures["purity"])
        accuracy = trainer.accuracy(data.test_inputs, data.test_labels)
        rows.append(
            (
                f"{name}: accuracy raw / averaged, purity",
                f"{accuracy.raw:.3f} / {accuracy.ema:.3f}, {torch.stack(purity).mean():.3f}",
                "",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--parts", default="twins,precision,picks,waits,scan,slots,learn")
    parser.add_argument("--slots", type=int, default=2000)
    options = parser.parse_args()
    data = {load.__name__: load for load in DATA_SETS}["cifar10"]()
    samples = Samples.of(
        data.inputs, data.labels, clean=torch.ones(len(data.labels), dtype=torch.bool)
    )
    parts = {
        "twins": twins,
        "precision": lambda: lower_precision(data.inputs),
        "picks": same_picks,
        "waits": lambda: no_waiting(samples),
        "scan": scan,
        "slots": lambda: slots(samples),
        "learn": lambda: learn(data, options.slots),
    }
    found = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}"
    rows: list[Row] = [("machine", found, "")]
    for name in options.parts.split(","):
        for row in parts[name]():
            print(*row, sep="\t", flush=True)
            rows.append(row)
        save_rows(options.out / "gpu.csv", rows)


if __name__ == "__main__":
    main()
