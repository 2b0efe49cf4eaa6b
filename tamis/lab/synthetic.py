"""The paper's figure 2: two Gaussians, 40% of the labels flipped, logistic regression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tamis.buffers import Growing
from tamis.data import Samples, Slot
from tamis.lab.ogrs_variants import printed
from tamis.models import logistic, start
from tamis.monitoring import Accuracy
from tamis.selectors import ITLM, OGRS, Naive, Oracle, Selector
from tamis.streams import Constant, DataSet, Replay, Symmetric, gaussians
from tamis.training import Trainer


@dataclass(frozen=True)
class Settings:
    """Everything that the figure is run with, the same for every method.

    From the paper's text: samples, clean_ratio, warm_up. From the authors' script: slots, Adam and
    its rate, test_every, and k in the warm-up; afterwards the script picks 1 row a slot, here k
    stays. The authors do not give the rest; it was chosen once, before any result.
    """

    samples: int = 300
    clean_ratio: float = 0.6
    warm_up: int = 50
    slots: int = 400
    k: int = 10
    rate: float = 0.01
    ema: float = 0.99
    seeds: int = 20
    test_every: int = 10

    def is_tested(self, slots: int) -> bool:
        """Return whether to test after so many slots: at intervals, after warm-up, at the end."""
        return slots % self.test_every == 0 or slots in (self.warm_up, self.slots)


@dataclass(frozen=True)
class Task:
    """What one seed gives every method: data, labels partly flipped, and seeds for the rest."""

    data: DataSet
    held: Samples
    model_seed: int
    pick_seed: int


@dataclass(frozen=True)
class Run:
    """What one method did under one seed; shares are means over the slots after the warm-up.

    `tested` counts the slots done at each entry of `accuracy`. `coverage` is the share of held
    rows picked after the warm-up, which alone touches nine rows of ten. `distinct` is the share of
    a slot's picks that are not repeats. `losses` are those of `held` after training.
    """

    tested: tuple[int, ...]
    accuracy: tuple[Accuracy, ...]
    purity: float
    coverage: float
    stayed: float | None
    distinct: float
    held: Samples
    losses: Tensor

    @property
    def separation(self) -> float:
        """Probability that a wrong label has a larger loss than a right one; 0.5 is blind."""
        if self.held.clean is None:
            raise ValueError("Only a simulation knows which labels are right.")
        wrong, right = self.losses[~self.held.clean], self.losses[self.held.clean]
        return (wrong[:, None] > right).float().mean().item()


@dataclass(frozen=True)
class Summary:
    """One method over all seeds, one field a column of numbers.csv."""

    method: str
    accuracy_mean: float
    accuracy_std: float
    accuracy_ema_mean: float
    accuracy_ema_std: float
    purity: float
    coverage: float
    stayed: float | None
    distinct: float
    separation: float


def methods(settings: Settings) -> dict[str, Selector]:
    """Return the selectors to compare, by name."""
    return {
        "naive": Naive(),
        "ITLM, keep 0.1": ITLM(0.1),
        f"ITLM, keep {settings.clean_ratio} (true)": ITLM(settings.clean_ratio),
        "ITLM, keep 0.9": ITLM(0.9),
        "OGRS": OGRS(),
        # All 200 rows as candidates: the walk is the paper's, and no gradient is computed twice.
        "OGRS, as printed": printed(candidates=settings.samples),
        "oracle": Oracle(),
    }


def draw_task(settings: Settings, seed: int) -> Task:
    """Draw data and flip labels to train on; rows and labels to test on are others, and right."""
    seeds = np.random.SeedSequence(seed).generate_state(4).tolist()
    data = gaussians(samples=settings.samples, seed=seeds[0])
    stream = Replay(
        data.inputs,
        data.labels,
        Symmetric(2),  # of two classes the other: a flip
        Constant(settings.clean_ratio),
        rows_per_slot=len(data.labels),
        seed=seeds[1],
    )
    return Task(data, next(iter(stream)), seeds[2], seeds[3])


def run_method(
    settings: Settings, task: Task, selector: Selector, progress: Callable[[], None]
) -> Run:
    """Train on rows that are all held from the first slot on."""
    model = start(logistic, task.data.input_shape, 2, task.model_seed)
    trainer = Trainer(
        model,
        torch.optim.Adam(model.parameters(), settings.rate),
        selector,
        Growing(len(task.held)),
        k=settings.k,
        warm_up=settings.warm_up,
        ema=settings.ema,
        seed=task.pick_seed,
    )
    slots, tested, accuracy = [], [], []
    for number in range(settings.slots):
        slots.append(trainer.step(None if number else task.held))
        if settings.is_tested(number + 1):
            tested.append(number + 1)
            accuracy.append(trainer.accuracy(task.data.test_inputs, task.data.test_labels))
        progress()
    after = slots[settings.warm_up :]
    return Run(
        tuple(tested),
        tuple(accuracy),
        mean(slot.purity for slot in after) or 0.0,
        len(torch.cat([slot.ids for slot in after]).unique()) / len(task.held),
        mean(slot.stayed for slot in after),
        mean(distinct(slot) for slot in after) or 0.0,
        task.held,
        trainer.now.losses(task.held.inputs, task.held.labels),
    )


def distinct(slot: Slot) -> float | None:
    """Share of a slot's picks that are not repeats."""
    return len(slot.ids.unique()) / len(slot.ids) if len(slot.ids) else None


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of what is known, None where nothing is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def final(runs: Sequence[Run]) -> np.ndarray:
    """Accuracy of the model as it is after the last slot, one entry a seed."""
    return np.array([run.accuracy[-1].raw for run in runs])


def summarise(method: str, runs: Sequence[Run]) -> Summary:
    """Sum up a method's runs; deviations are those of a sample of seeds."""
    raw, ema = final(runs), np.array([run.accuracy[-1].ema for run in runs], float)
    return Summary(
        method,
        float(raw.mean()),
        float(raw.std(ddof=1)),
        float(ema.mean()),
        float(ema.std(ddof=1)),
        mean(run.purity for run in runs) or 0.0,
        mean(run.coverage for run in runs) or 0.0,
        mean(run.stayed for run in runs),
        mean(run.distinct for run in runs) or 0.0,
        mean(run.separation for run in runs) or 0.0,
    )
