"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023, algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, Search
from tamis.local import LocalModel
from tamis.selectors.protocol import all_rows, draw, usable

SCALE_ROWS = 256
"""Rows that the units of a walk are measured on."""
LEAST_PER_PICK = 4
"""Candidates for each pick, at the least."""


class Units(NamedTuple):
    """What a step size, a price and a use are measured in: all 1 for a walk that is not scaled."""

    step: float = 1.0
    price: float = 1.0
    uses: float = 1.0


@dataclass(frozen=True)
class OGRS:
    """Walk k chains downhill through the pool, at a price for samples used too often.

    In the paper's letters: steps is M, step_size is alpha, price_step is gamma, max_uses is zeta,
    price is mu. `OGRS()` is what works, `OGRS.paper()` the text to the letter, `OGRS.released()`
    the rule of the authors' script. docs/methods/ogrs.md gives the reason for every default, and
    every departure from the text.

    `scaled`: step_size, price_step and max_uses count in units of the data (distance over slope,
    distance times slope, mean uses), so that one setting serves pixels and features alike.
    `space`: where the walk takes place. `candidates`: random rows of the pool to walk among; None
    for all. `uses`: what counts as one, every visit of a chain or the final pick. `same_label`:
    step only on samples with the label that the chain started on. `in_turn`: within a step, each
    chain sees where those before it have gone. `carry_price`: all chains share one price, else
    each has its own. `one_by_one`: a chain ends before the next begins. `squared`, `dual_first`:
    as in eq. 7, and eq. 8 before it.
    """

    steps: int = 5
    step_size: float = 0.8
    price_step: float = 0.01
    max_uses: float = 4.0
    scaled: bool = True
    space: Literal["inputs", "features"] = "features"
    candidates: int | None = 256
    uses: Literal["visits", "picks"] = "picks"
    same_label: bool = False
    in_turn: bool = True
    carry_price: bool = False
    one_by_one: bool = False
    squared: bool = True
    dual_first: bool = True

    def __post_init__(self) -> None:
        if self.steps < 1 or self.step_size <= 0 or self.price_step < 0:
            raise ValueError(f"OGRS needs steps >= 1, step_size > 0, price_step >= 0, got {self}.")

    @classmethod
    def paper(
        cls, steps: int = 5, step_size: float = 0.1, price_step: float = 0.25, max_uses: float = 1
    ) -> Self:
        """Set algorithm 1 as printed; what the paper does not say is from the authors' script."""
        return cls(
            steps, step_size, price_step, max_uses, scaled=False, space="inputs", candidates=None,
            uses="visits", carry_price=True, one_by_one=True,
        )  # fmt: skip

    @classmethod
    def released(cls) -> Self:
        """Set the rule of the authors' script: one step, plain distance, no limit, price last.

        Its price enters divided by 50; a price that grows 50 times slower is the same.
        """
        return cls(
            1, 0.1, 0.25 / 50, 0, scaled=False, space="inputs", candidates=None, uses="visits",
            carry_price=True, one_by_one=True, squared=False, dual_first=False,
        )  # fmt: skip

    def select(self, pool: Samples, local: LocalModel, k: int, generator: Generator) -> Picks:
        """Pick the rows where k chains stand after the last step."""
        k, among = min(k, len(pool)), pool
        shown = all_rows(pool)
        if self.candidates is not None:
            shown = draw(shown, max(self.candidates, LEAST_PER_PICK * k), generator)
            among = pool[shown]
        points, slope_at = self._geometry(among, local)
        starts = torch.randint(len(among), (k,), generator=generator).to(points.device)
        walk = Walk(self, among, points, slope_at, self._units(among, points, slope_at, generator))
        for group in starts.split(1 if self.one_by_one else k):
            walk.go(group)
        search = Search(
            torch.zeros_like(pool.uses).index_add_(0, shown, walk.visits),
            walk.stayed / (k * self.steps),
            walk.regret / k,
            walk.highest_price,
        )
        return Picks(usable(pool, shown[torch.cat(walk.ends)]), search=search)

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

    def _units(
        self,
        pool: Samples,
        points: Tensor,
        slope_at: Callable[[Tensor], Tensor],
        generator: Generator,
    ) -> Units:
        if not self.scaled:
            return Units()
        rows = draw(all_rows(pool), SCALE_ROWS, generator)
        distance = torch.cdist(points[rows], points[rows]).nanmean().item()
        slope = slope_at(rows).norm(dim=1).nanmean().item()
        uses = max(1.0, pool.uses.float().mean().item())
        if not (distance > 0 and slope > 0):  # one row, duplicates, or a perfect model
            return Units(uses=uses)
        return Units(distance / slope, distance * slope, uses)


class Walk:
    """The chains of one slot, and what they leave behind: uses, prices, visits."""

    def __init__(
        self,
        rule: OGRS,
        pool: Samples,
        points: Tensor,
        slope_at: Callable[[Tensor], Tensor],
        units: Units,
    ) -> None:
        self.rule = rule
        self.points = points
        self.labels = pool.labels
        self.slope_at = slope_at
        self.alpha = rule.step_size * units.step
        self.gamma = rule.price_step * units.price
        self.norms = points.square().sum(dim=1)
        # The constraint of eq. 4 for every row: how far it is used beyond what is allowed.
        self.excess = pool.uses.to(points.dtype) / units.uses - rule.max_uses
        self.one_use = 1 / units.uses
        self.price = points.new_zeros(1)
        self.visits = torch.zeros_like(pool.uses)
        self.ends: list[Tensor] = []
        self.stayed = 0
        self.regret = 0.0
        self.highest_price = 0.0

    def go(self, at: Tensor) -> None:
        """Walk a group of chains, in step, from these rows to the end."""
        rule, at = self.rule, at.clone()
        if not rule.carry_price:
            self.price = self.points.new_zeros(len(at))
        total_slope = torch.zeros_like(self.points[at])
        for step in range(rule.steps):
            slope = self.slope_at(at)
            cost = self._cost(at, slope)
            before = at.clone()
            counted = rule.uses == "visits" or step == rule.steps - 1
            self._move(cost, at, self.one_use if counted else 0.0)
            self.visits.index_add_(0, at, torch.ones_like(at))
            self.stayed += int((before == at).sum())
            total_slope += slope
        # Eq. 9 without its second term: a count of uses has no gradient in the sample.
        self.regret += total_slope.norm(dim=1).sum().item()
        self.highest_price = max(self.highest_price, self.price.max().item())
        self.ends.append(at)

    def _cost(self, at: Tensor, slope: Tensor) -> Tensor:
        """Eq. 7 but for its price, for every chain and row; rows not to be stepped on are inf."""
        here = self.points[at]
        if self.rule.squared:
            # The square completed, and the part that is the same for every row left out.
            goal = here - self.alpha * slope
            cost = (self.norms - 2 * goal @ self.points.T) / (2 * self.alpha)
        else:
            away = torch.cdist(here, self.points) / (2 * self.alpha)
            cost = slope @ self.points.T - (slope * here).sum(dim=1, keepdim=True) + away
        if self.rule.same_label:
            cost = cost.masked_fill(self.labels[at][:, None] != self.labels, torch.inf)
        return cost.nan_to_num(torch.inf, torch.inf)

    def _move(self, cost: Tensor, at: Tensor, use: float) -> None:
        """Move the chains, in turn where someone pays: moved at once, they crowd on one row."""
        rise = self.gamma * (self.excess.max() + use * len(at))
        if rise <= 0 and not self.price.any():
            at[:] = cost.argmin(dim=1)
            self.excess.index_add_(0, at, torch.full_like(at, use, dtype=self.excess.dtype))
            return
        seen = self.excess if self.rule.in_turn else self.excess.clone()
        for chain, distance in enumerate(cost):
            own = chain % len(self.price)
            if self.rule.dual_first:
                self._raise_price(own, seen[at[chain]])
            at[chain] = (distance + self.price[own] * seen).argmin()  # eq. 7
            self.excess[at[chain]] += use
            if not self.rule.dual_first:
                self._raise_price(own, seen[at[chain]])

    def _raise_price(self, own: int, excess: Tensor) -> None:
        self.price[own] = (self.price[own] + self.gamma * excess).clamp_min(0)  # eq. 8
