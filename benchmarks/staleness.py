"""What old features cost: kept and renewed a few at a time, against a fresh pass in every slot.

python -m benchmarks.staleness

MNIST, 5,000 rows held, half of the labels right, a 2-layer MLP, K = 32, the first 500 slots naive.
The regret is the mean gradient norm at the picks over that of the pool, both by fresh features: 1
is random. The trainers of a seed take turns, slot by slot, so that their times can be compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from torch import Tensor

from tamis import OGRS
from tamis.lab.audit import Cell, prepare
from tamis.lab.pages.measurements import Line, save_table
from tamis.lab.pages.performance_page import FOLDER, STALENESS
from tamis.monitoring.progress import Bar
from tamis.streams import DataSet, MissingDataError, mnist

SEEDS = (0, 1, 2)
REFRESH = (None, 128, 32, 8)
PROBED = 50


class Run:
    """One trainer, and what is seen of it after the warm-up."""

    def __init__(self, data: DataSet, refresh: int | None, seed: int, slots: int) -> None:
        cell = Cell("staleness", "OGRS", OGRS(), slots=slots, seed=seed)
        self.trainer, self._items = prepare(cell, data)
        self.trainer.refresh = refresh
        self.regrets: list[float] = []
        self.errors: list[float] = []
        self.purities: list[float] = []
        self.seconds: list[float] = []

    def step(self) -> None:
        """Do a slot."""
        if self.trainer.slots < self.trainer.warm_up:
            self.trainer.step(next(self._items, None))
        elif self.trainer.slots % PROBED:
            self._note()
        else:
            self._probe()

    def _note(self) -> Tensor:
        slot = self.trainer.step()
        self.purities.append(slot.purity)
        self.seconds.append(slot.seconds)
        return slot.ids  # the rows too, since the buffer was filled by one chunk

    def _probe(self) -> None:
        """Look at the pool with fresh features, just before a slot picks from it."""
        pool = self.trainer.buffer.pool()
        features, gradients = self.trainer.view.features_and_gradients(pool.inputs, pool.labels)
        steepness = gradients.norm(dim=1)
        if pool.features is not None:
            self.errors.append(((pool.features - features).norm() / features.norm()).item())
        self.regrets.append((steepness[self._note()].mean() / steepness.mean()).item())

    def result(self, data: DataSet) -> Line:
        """Return the numbers of the run."""
        accuracy = self.trainer.accuracy(data.test_inputs, data.test_labels)
        # Features are renewed in some slots for all, so single slots cannot be compared.
        stretches = [part.mean() for part in torch.tensor(self.seconds).split(PROBED)]
        return {
            "regret": f"{mean(self.regrets):.4f}",
            "feature_error": f"{mean(self.errors):.4f}" if self.errors else "",
            "purity": f"{mean(self.purities):.4f}",
            "accuracy": f"{accuracy.raw:.4f}",
            "accuracy_ema": f"{accuracy.ema:.4f}",
            "milliseconds": f"{1000 * torch.stack(stretches).median():.3f}",
        }


def measure(data: DataSet, slots: int, console: Console) -> list[Line]:
    lines: list[Line] = []
    with Bar("staleness", len(SEEDS) * slots, console) as bar:
        for seed in SEEDS:
            runs = {refresh: Run(data, refresh, seed, slots) for refresh in REFRESH}
            for _ in range(slots):
                for run in runs.values():
                    run.step()
                bar.advance()
            lines += [
                {"refresh": str(refresh or ""), "seed": str(seed), **run.result(data)}
                for refresh, run in runs.items()
            ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    try:
        data = mnist()
    except MissingDataError as error:
        console.print(f"{error} Left as it was: staleness.csv.")
        return
    save_table(options.out / "staleness.csv", STALENESS, measure(data, options.slots, console))


if __name__ == "__main__":
    main()
