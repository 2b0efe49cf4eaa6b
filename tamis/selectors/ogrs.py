"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023, algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, Search
from tamis.local import LocalModel
from tamis.selectors.protocol import draw, usable

SCALE_ROWS = 256
"""Rows that the scale of a step is measured on."""


@dataclass(frozen=True)
class OGRS:
    """Walk k chains downhill through the pool, at a price for samples used too often.

    In the paper's letters: steps is M, step_size is alpha, price_step is gamma, max_uses is zeta.
    `scaled` gives step_size in units of the data, mean distance over mean gradient, so that one
    setting serves pixels and features alike. `space` is where the walk takes place. `uses` says
    what counts as one: every visit of a chain, as the paper has it, or the final picks alone.

    The paper walks its chains one after another. Here they walk in step, so that one pass serves
    all k; docs/methods/ogrs.md lists this and every other departure.
    """

    steps: int = 5
    step_size: float = 0.8
    price_step: float = 0.25
    max_uses: int = 1000
    scaled: bool = True
    space: Literal["inputs", "features"] = "features"
    uses: Literal["visits", "picks"] = "picks"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.step_size <= 0 or self.price_step < 0:
            raise ValueError(f"OGRS needs steps >= 1, step_size > 0, price_step >= 0, got {self}.")

    def select(self, pool: Samples, local: LocalModel, k: int, generator: Generator) -> Picks:
        """Pick the rows where k chains stand after the last step."""
        points, slope_at = self._geometry(pool, local)
        alpha = self._alpha(points, slope_at, generator)
        starts = torch.randint(len(pool), (min(k, len(pool)),), generator=generator)
        at = starts.to(points.device)
        price, uses = points.new_zeros(len(at)), pool.uses.clone()
        visits, stayed = torch.zeros_like(uses), 0.0
        total_slope = torch.zeros_like(points[at])
        norms = points.square().sum(dim=1)

        for step in range(self.steps):
            slope = slope_at(at)
            goal = points[at] - alpha * slope
            # Eq. 7, its square completed and the part that is the same for every row left out.
            cost = ((norms - 2 * goal @ points.T) / (2 * alpha)).nan_to_num(torch.inf, torch.inf)
            left = at.clone()
            self._move(cost, at, price, uses, counted=step == self.steps - 1)
            visits.index_add_(0, at, torch.ones_like(at))
            stayed += (left == at).float().mean().item() / self.steps
            total_slope += slope

        # Eq. 9 without its second term: a count of uses has no gradient in the sample.
        regret = total_slope.norm(dim=1).mean().item()
        return Picks(usable(pool, at), search=Search(visits, stayed, regret))

    def _geometry(
        self, pool: Samples, local: LocalModel
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Where each row lies, and the slope of the local loss at given rows."""
        if self.space == "features":
            points, slopes = local.feature_view(pool.inputs, pool.labels)
            return points, lambda rows: slopes[rows]
        return pool.inputs.flatten(1), lambda rows: local.input_gradients(
            pool.inputs[rows], pool.labels[rows]
        ).flatten(1)

    def _alpha(
        self, points: Tensor, slope_at: Callable[[Tensor], Tensor], generator: Generator
    ) -> float:
        if not self.scaled:
            return self.step_size
        rows = draw(torch.arange(len(points), device=points.device), SCALE_ROWS, generator)
        distance = torch.cdist(points[rows], points[rows]).nanmean()
        slope = slope_at(rows).norm(dim=1).nanmean()
        scale = (distance / slope).item()
        # One row alone has no distance, and a perfect model no slope: then any step will do.
        return self.step_size * scale if 0 < scale < torch.inf else self.step_size

    def _move(self, cost: Tensor, at: Tensor, price: Tensor, uses: Tensor, counted: bool) -> None:
        """Move the chains in turn. Moved at once, they all crowd onto the same unused sample."""
        counted = counted or self.uses == "visits"
        if not price.any() and uses.max() + counted * len(at) <= self.max_uses:
            at[:] = cost.argmin(dim=1)  # nobody pays, so turns make no difference
            uses.index_add_(0, at, torch.full_like(at, counted))
            return
        for chain, distance in enumerate(cost):
            excess = uses - self.max_uses
            rise = self.price_step * excess[at[chain]]
            price[chain] = (price[chain] + rise).clamp_min(0)  # eq. 8
            at[chain] = (distance + price[chain] * excess).argmin()  # eq. 7
            uses[at[chain]] += counted
