"""Online gradient-based robust selection to the letter: Yang, Koppel and Zhang, 2023, algorithm 1.

A reference for tests and experiments: every step of every chain goes through the complete pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.selectors.ogrs.projection import describe_walk, move_costs, nearest
from tamis.selectors.ogrs.rule import check_steps
from tamis.selectors.sampling import all_rows, is_trainable


@dataclass(frozen=True)
class PaperOGRS:
    """Walk one chain for each pick, one after another, through all inputs: OGRS as printed.

    In the paper's letters: steps is M, step_size alpha, price_step gamma, max_uses zeta. Defaults
    that the paper does not give are those of the authors' script. Every step counts as a use, and
    the price is carried from chain to chain.
    """

    seeks_clean: ClassVar = False  # at these settings the price drives the chains

    steps: int = 5
    step_size: float = 0.1
    price_step: float = 0.25
    max_uses: float = 1

    def __post_init__(self) -> None:
        check_steps(self.steps, self.step_size, self.price_step)

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick the row where each chain ends, from a random start."""
        starts = torch.randint(len(pool), (min(k, len(pool)),), generator=generator)
        # Unused: the generator is left where the lab's variants of this walk leave it.
        torch.rand(len(pool) + 1, generator=generator)
        walk = Walk(self, pool, view)
        paths = [walk.go(start) for start in to_device(starts, pool.labels.device).split(1)]
        path = torch.cat(paths, dim=1)
        search = describe_walk(path, torch.cat(walk.regrets), walk.highest_price, all_rows(pool))
        return Picks.only(path[-1], is_trainable(pool, path[-1]), search)


class Walk:
    """The chains of one slot, with the uses and the price that they share."""

    def __init__(self, rule: PaperOGRS, pool: Samples, view: ModelView) -> None:
        self.steps, self.pool, self.view = rule.steps, pool, view
        self.points = pool.inputs.flatten(1)
        self.norms = self.points.square().sum(dim=1)
        self.alpha = rule.step_size * self.points.new_ones(())
        self.gamma = rule.price_step * self.points.new_ones(())
        self.excess = pool.uses.to(self.points.dtype) - rule.max_uses  # g = p - zeta, eq. 4
        self.price = self.points.new_zeros(1)
        self.highest_price = self.points.new_zeros(())
        self.regrets: list[Tensor] = []

    def go(self, at: Tensor) -> Tensor:
        """Walk one chain from its start, and return its rows, (steps + 1, 1)."""
        path, total = [at], torch.zeros_like(self.points[at])
        for _ in range(self.steps):
            inputs, labels = self.pool.inputs[at], self.pool.labels[at]
            gradient = self.view.input_gradients(inputs, labels).flatten(1)
            at = self._step(at, gradient)
            self.highest_price = torch.maximum(self.highest_price, self.price.max())
            path.append(at)
            total += gradient
        # Eq. 9 without its second term: a number of uses has no gradient in the sample.
        self.regrets.append(total.norm(dim=1))
        return torch.stack(path)

    def _step(self, at: Tensor, gradient: Tensor) -> Tensor:
        """Raise the price by eq. 8, then move by eq. 7, and count the move as a use."""
        free = self.gamma * (self.excess.max() + 1) <= 0 and not self.price.any()
        self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)  # eq. 8
        if free:  # no price can have risen: eq. 7 is a search for the nearest neighbour
            goal = self.points[at] - self.alpha * gradient
            at = nearest(goal, self.points, self.norms, self.price, self.excess)
        else:
            costs = move_costs(self.points[at], gradient, self.points, self.norms, self.alpha)
            at = (costs[0] + self.price * self.excess).argmin()[None]  # eq. 7
        self.excess[at] += 1
        return at
