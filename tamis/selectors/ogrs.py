"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023, algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, Search
from tamis.local import LocalModel
from tamis.selectors.fairness import draw_fairly
from tamis.selectors.protocol import all_rows, draw, usable

LEAST_PER_PICK = 4
"""Candidates for each pick, at the least."""
MEASURED = 256
"""Rows that units are measured on, at the most."""
STEEP = 0.9
"""Quantile of the slopes that a step is measured by. Wrong labels have the steepest slopes, and
so a high quantile stays where it is while the clean ratio moves; the mean does not."""


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

    `scaled`: step_size, price_step and max_uses count in units of the data (distance between
    neighbours over a steep slope, the two multiplied, mean uses), so that one setting serves
    pixels and features alike. `space`: where the walk takes place. `candidates`: random rows of
    the pool to walk among, at least 4 a pick; None for all. `starts`: "picks" walks one chain a
    pick from a random row; "all" walks one from every row, and picks among the rows where some
    chain ends, each at most once. `uses`: what counts as one, every visit of a chain or the final
    pick. `same_label`: step only on samples with the label of the one left. `in_turn`: within a
    step, each chain sees where those before it have gone. `carry_price`: all chains share one
    price, else each has its own. `one_by_one`: a chain ends before the next begins. `squared`,
    `dual_first`: as in eq. 7, and eq. 8 before it.

    `fair_within`: keep each group's share of the picks at most this far above its share of the
    pool, by one more constraint and multiplier a group; None leaves shares alone. Groups are the
    samples' own, or else their labels.
    """

    steps: int = 10
    step_size: float = 4.0
    price_step: float = 0.01
    max_uses: float = 8.0
    scaled: bool = True
    space: Literal["inputs", "features"] = "features"
    candidates: int | None = 128
    starts: Literal["picks", "all"] = "all"
    uses: Literal["visits", "picks"] = "picks"
    same_label: bool = False
    in_turn: bool = True
    carry_price: bool = False
    one_by_one: bool = False
    squared: bool = True
    dual_first: bool = True
    fair_within: float | None = None

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
            starts="picks", uses="visits", carry_price=True, one_by_one=True,
        )  # fmt: skip

    @classmethod
    def released(cls) -> Self:
        """Set the rule of the authors' script: one step, plain distance, no limit, price last.

        Its price enters divided by 50; a price that grows 50 times slower is the same.
        """
        return cls(
            1, 0.1, 0.25 / 50, 0, scaled=False, space="inputs", candidates=None, starts="picks",
            uses="visits", carry_price=True, one_by_one=True, squared=False, dual_first=False,
        )  # fmt: skip

    def select(self, pool: Samples, local: LocalModel, k: int, generator: Generator) -> Picks:
        """Pick rows where chains stand after the last step."""
        k, among, shown = min(k, len(pool)), pool, all_rows(pool)
        if self.candidates is not None:
            shown = draw(shown, max(self.candidates, LEAST_PER_PICK * k), generator)
            among = pool[shown]
        points, slope_at = self._terrain(among, local)
        walk = Walk(self, among, points, slope_at)
        if self.starts == "all":
            starts = all_rows(among)
        else:
            starts = torch.randint(len(among), (k,), generator=generator).to(points.device)
        for group in starts.split(1 if self.one_by_one else len(starts)):
            walk.go(group)
        ends, taxes = torch.cat(walk.ends), None
        if self.fair_within is not None:
            groups = among.labels if among.groups is None else among.groups
            ends, taxes = draw_fairly(ends.unique(), groups, self.fair_within, k, generator)
        elif self.starts == "all":
            ends = draw(ends.unique(), k, generator)
        return Picks(usable(pool, shown[ends]), search=walk.tell(shown, len(pool), taxes))

    def _terrain(
        self, pool: Samples, local: LocalModel
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Where each row lies, and the slope of the local loss at given rows."""
        if self.space == "features":
            points, slopes = local.feature_view(pool.inputs, pool.labels)
            return points, lambda rows: slopes[rows]
        points = pool.inputs.flatten(1)
        if self.candidates is None:  # too many to know beforehand, so as chains come by
            return points, lambda rows: local.input_gradients(
                pool.inputs[rows], pool.labels[rows]
            ).flatten(1)
        slopes = local.input_gradients(pool.inputs, pool.labels).flatten(1)
        return points, lambda rows: slopes[rows]


def spread(rows: int) -> Tensor:
    """Take at most 256 rows, evenly spread, to measure units on."""
    return torch.linspace(0, rows - 1, min(rows, MEASURED)).long()


def measure(points: Tensor, slopes: Tensor, uses: Tensor) -> Units:
    """Take the units of a walk from the rows that it is about."""
    apart = torch.cdist(points, points).fill_diagonal_(torch.inf).nan_to_num(torch.inf, torch.inf)
    nearest = apart.min(dim=1).values
    distance = nearest[nearest.isfinite()].mean().item()
    steepness = slopes.norm(dim=1)
    steepness = steepness[steepness.isfinite()]
    slope = steepness.quantile(STEEP).item() if len(steepness) else 0.0
    mean_uses = max(1.0, uses.float().mean().item())
    if not (distance > 0 and slope > 0):  # one row, duplicates alone, or a perfect model
        return Units(uses=mean_uses)
    return Units(distance / slope, distance * slope, mean_uses)


class Walk:
    """The chains of one slot, and what they leave behind: uses, prices, visits."""

    def __init__(
        self, rule: OGRS, pool: Samples, points: Tensor, slope_at: Callable[[Tensor], Tensor]
    ) -> None:
        self.rule = rule
        self.points = points
        self.labels = pool.labels
        self.slope_at = slope_at
        units = Units()
        if rule.scaled:
            rows = spread(len(pool)).to(points.device)
            units = measure(points[rows], slope_at(rows), pool.uses)
        self.alpha = rule.step_size * units.step
        self.gamma = rule.price_step * units.price
        self.norms = points.square().sum(dim=1)
        # The constraint of eq. 4 for every row: how far it is used beyond what is allowed.
        self.excess = pool.uses.to(points.dtype) / units.uses - rule.max_uses
        self.one_use = 1 / units.uses
        self.price = points.new_zeros(1)
        self.visits = torch.zeros_like(pool.uses)
        self.ends: list[Tensor] = []
        self.moves = self.stayed = 0
        self.regret = self.highest_price = 0.0
        # Among few candidates the cost of every move is known at once, and chains look it up.
        self.costs = None
        if rule.candidates is not None:
            self.costs = self._cost(all_rows(pool), slope_at(all_rows(pool)))
            self.free_moves = self.costs.argmin(dim=1)

    def go(self, at: Tensor) -> None:
        """Walk a group of chains, in step, from these rows to the end."""
        rule, at = self.rule, at.clone()
        if not rule.carry_price:
            self.price = self.points.new_zeros(len(at))
        total_slope = torch.zeros_like(self.points[at])
        for step in range(rule.steps):
            slope = self.slope_at(at)
            before = at.clone()
            last_of_picks = rule.starts == "picks" and step == rule.steps - 1
            counted = rule.uses == "visits" or last_of_picks
            self._move(at, slope, self.one_use if counted else 0.0)
            self.highest_price = max(self.highest_price, self.price.max().item())
            self.visits.index_add_(0, at, torch.ones_like(at))
            self.stayed += int((before == at).sum())
            total_slope += slope
        self.moves += rule.steps * len(at)
        # Eq. 9 without its second term: a count of uses has no gradient in the sample.
        self.regret += total_slope.norm(dim=1).sum().item()
        self.ends.append(at)

    def tell(self, shown: Tensor, rows: int, taxes: Tensor | None) -> Search:
        """Say what the walk did, in rows of the whole pool."""
        return Search(
            torch.zeros(rows, dtype=torch.long, device=shown.device).index_add_(
                0, shown, self.visits
            ),
            self.stayed / self.moves,
            self.regret * self.rule.steps / self.moves,
            self.highest_price,
            taxes,
        )

    def _move(self, at: Tensor, slope: Tensor, use: float) -> None:
        """Move every chain by eq. 7, having raised its price by eq. 8."""
        rule = self.rule
        idle = self.gamma * (self.excess.max() + use * len(at)) <= 0 and not self.price.any()
        if idle and self.costs is not None:
            at[:] = self.free_moves[at]
        elif idle or not ((use and rule.in_turn) or rule.carry_price):
            self._move_at_once(at, slope)
        else:
            self._move_in_turn(at, slope, use)
            return
        self.excess.index_add_(0, at, torch.full_like(at, use, dtype=self.excess.dtype))

    def _move_at_once(self, at: Tensor, slope: Tensor) -> None:
        """Move all chains at the same instant: they may crowd onto the same unused sample."""
        cost = self._cost_from(at, slope)
        if self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)
        at[:] = (cost + self.price[:, None] * self.excess).argmin(dim=1)
        if not self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)

    def _move_in_turn(self, at: Tensor, slope: Tensor, use: float) -> None:
        """Move the chains one after another, so that each sees what those before it used."""
        for chain, cost in enumerate(self._cost_from(at, slope)):
            own = chain % len(self.price)
            if self.rule.dual_first:
                self._raise_price(own, at[chain])
            at[chain] = (cost + self.price[own] * self.excess).argmin()
            self.excess[at[chain]] += use
            if not self.rule.dual_first:
                self._raise_price(own, at[chain])

    def _raise_price(self, own: int, row: Tensor) -> None:
        self.price[own] = (self.price[own] + self.gamma * self.excess[row]).clamp_min(0)

    def _cost_from(self, at: Tensor, slope: Tensor) -> Tensor:
        return self._cost(at, slope) if self.costs is None else self.costs[at]

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
