"""Accuracy over passes: every method gets the same number of forward-equivalents a row held."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from tamis.lab.board import load, machine
from tamis.lab.methods import METHODS, VARIANTS
from tamis.lab.scene import PLACES, Passes, Scene
from tamis.monitoring import CollapseWarning

BACKWARD = 2
"""Forward passes that a backward pass counts as."""


@dataclass(frozen=True)
class Cell:
    """One run: a method in a place, under a kind of noise."""

    method: str
    data: str
    noise: str
    clean_ratio: float
    seed: int


@dataclass(frozen=True)
class Point(Cell):
    """What a run came to when its passes had reached a budget.

    `passes` are the forward-equivalents for each row held that were counted by then: those of the
    slot that reached the budget, and of a method's preparations, are among them.
    """

    budget: float
    passes: float
    slots: int
    accuracy: float
    accuracy_ema: float
    machine: str

    @property
    def better(self) -> float:
        """Accuracy with or without averaged weights, whichever is higher."""
        return max(self.accuracy, -math.inf if math.isnan(self.accuracy_ema) else self.accuracy_ema)


def cells(
    methods: Sequence[str],
    data: Sequence[str],
    noises: Sequence[str],
    clean_ratios: Sequence[float],
    seeds: int,
) -> list[Cell]:
    """List the runs of every combination, seeds outermost."""
    return [
        Cell(method, name, noise, ratio, seed)
        for seed in range(seeds)
        for name in data
        for noise in noises
        for ratio in clean_ratios
        for method in methods
    ]


def spent(passes: Passes) -> int:
    """Return the forward-equivalents counted so far."""
    return passes.forward + BACKWARD * passes.backward


def run_cell(cell: Cell, budgets: Sequence[float], folder: Path | None = None) -> list[Point]:
    """Train until the largest budget is spent; return a point for each budget."""
    torch.set_num_threads(1)
    method = {method.name: method for method in (*METHODS, *VARIANTS)}[cell.method]
    place, data = replace(PLACES[cell.data], graphed=False), load(cell.data, folder)
    scene = Scene(place, data, cell.noise, cell.clean_ratio, place.slots, cell.seed)
    runner, rows, items = method.build(scene), len(scene.held), scene.stream(method.chunks)
    points, slots = [], 0
    for budget in sorted(budgets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            while spent(scene.passes) < budget * rows:
                runner.step(next(items, None))
                slots += 1
        counted = replace(scene.passes)
        accuracy = runner.accuracy(data.test_inputs, data.test_labels)
        scene.passes.forward, scene.passes.backward = counted.forward, counted.backward
        points.append(
            Point(
                **asdict(cell),
                budget=budget,
                passes=spent(counted) / rows,
                slots=slots,
                accuracy=accuracy.raw,
                accuracy_ema=math.nan if accuracy.ema is None else accuracy.ema,
                machine=machine(place.device),
            )
        )
    return points
