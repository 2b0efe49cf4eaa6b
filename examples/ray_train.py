"""The demo's stream on a Ray cluster of two workers, beside one trainer on one machine.

python examples/ray_train.py [--seeds 5] [--rows 1347]

Digits arrive one by one while the share of right labels goes from 0.9 to 0.5, 0.8 and 0.4. Each
worker reads every other row. Without `ray.init` a cluster of two workers is started here.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from tamis import Growing, Plausible, Replay, Samples, Trainer
from tamis.distributed import Ranks, RankTrainer
from tamis.integrations.ray import train_on_ray
from tamis.models import mlp, start
from tamis.streams import Steps, Symmetric, digits

RATE, ROWS = 0.3, 1347


def make_stream(seed: int, rows: int) -> Replay:
    """Digits with labels less and less right."""
    data = digits()
    noise, ratios = Symmetric(10), Steps((0.9, 0.5, 0.8, 0.4))
    return Replay(data.inputs, data.labels, noise, ratios, slots=rows, seed=seed)


def read(stream: Replay, shard: int, shards: int) -> Iterator[Samples | None]:
    """Take the rows of one shard; nothing while it is another one's turn."""
    for number, samples in enumerate(stream):
        yield samples if number % shards == shard else None


def on_one_machine(seed: int, rows: int) -> float:
    """Train as the demo does, and return the accuracy of the averaged weights."""
    data, model = digits(), start(mlp, (64,), 10, seed)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    trainer = Trainer(model, optimizer, Plausible(), Growing(ROWS), seed=seed)
    for _ in trainer.run(make_stream(seed, rows)):
        pass
    return trainer.accuracy(data.test_inputs, data.test_labels).ema or 0.0


def on_a_worker(ranks: Ranks, seed: int, rows: int) -> float:
    """Train together with the other workers, and return the accuracy of the averaged weights."""
    data, model = digits(), start(mlp, (64,), 10, seed)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    trainer = RankTrainer(
        ranks,
        model,
        optimizer,
        Plausible(),
        buffer=lambda shard: Growing(ROWS),
        pool_size=2 * ROWS,
        window="average",
        seed=seed,
    )
    stream = make_stream(seed, rows)
    for _ in trainer.run(*(read(stream, shard, ranks.size) for shard in trainer.own)):
        pass
    return trainer.accuracy(data.test_inputs, data.test_labels).ema or 0.0


def main() -> None:
    """Print the accuracies of every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    seeds, rows = range(options.seeds), options.rows

    def work(ranks: Ranks) -> list[float]:
        return [on_a_worker(ranks, seed, rows) for seed in seeds]

    with tempfile.TemporaryDirectory() as folder:
        first, second = train_on_ray(work, workers=2, folder=Path(folder))
    if first != second:
        raise SystemExit("The two workers have trained different models.")
    single = [on_one_machine(seed, rows) for seed in seeds]
    print(json.dumps({"ray": first, "single": single}))


if __name__ == "__main__":
    main()
