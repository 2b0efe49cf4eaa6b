"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023, algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples, Search, to_device
from tamis.model_view import ModelView
from tamis.model_view.view import at_least_float
from tamis.selectors.ogrs.fairness import draw_fairly
from tamis.selectors.ogrs.projection import nearest, walk_among
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    is_trainable,
    lowest_marked,
    plan_rows,
)

NO_ROWS = torch.empty(0, dtype=torch.long)
MEASURED = 256
"""Rows that units are measured on, at the most."""
IN_TURN = 32
"""Chains whose costs are worked out at a time where they move in turn: a few rows of K x N."""
CHUNK = 8192
"""Rows of the pool looked at a time."""
STEEP = 0.9
"""Quantile of the slopes that a step is measured by. Wrong labels have the steepest slopes, and
so a high quantile stays where it is while the clean ratio moves; the mean does not."""


class Units(NamedTuple):
    """What a step size, a price and a use are measured in: all 1 for a walk that is not scaled."""

    step: Tensor
    price: Tensor
    uses: Tensor


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

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick rows where chains stand after the last step."""
        chance = self.plan(len(pool), k, generator)
        return self.choose(pool, view, k, *(to_device(part, pool.labels.device) for part in chance))

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, ...]:
        """Draw the candidates, where chains start, and keys to draw among their ends by."""
        k, shown, starts = min(k, rows), NO_ROWS, NO_ROWS
        if self.candidates is not None:
            shown = plan_rows(rows, max(self.candidates, LEAST_PER_PICK * k), generator)
            rows = len(shown)
        if self.starts == "picks":
            starts = torch.randint(rows, (k,), generator=generator)
        return shown, starts, torch.rand(rows + 1, generator=generator)

    def choose(self, pool: Samples, view: ModelView, k: int, *chance: Tensor) -> Picks:
        """Walk, and pick among the ends."""
        shown, starts, keys = chance
        k, among = min(k, len(pool)), pool
        if self.candidates is None:
            shown = all_rows(pool)
        else:
            among = pool[shown]
        points, slope_at = self._terrain(among, view)
        walk = Walk(self, among, points, slope_at)
        if self.starts == "all":
            starts = all_rows(among)
        for group in starts.split(1 if self.one_by_one else len(starts)):
            walk.go(group)
        ends, taxes = torch.cat(walk.ends), None
        if self.fair_within is not None:
            groups = among.labels if among.groups is None else among.groups
            ends, taxes = draw_fairly(ends.unique(), groups, self.fair_within, k, keys)
        real = torch.ones_like(ends, dtype=torch.bool)
        if self.fair_within is None and self.starts == "all":
            reached = torch.zeros_like(shown, dtype=torch.bool).index_fill_(0, ends, True)
            ends, real = lowest_marked(reached, keys[:-1], k)
        return Picks.only(shown[ends], real & is_trainable(among, ends), walk.tell(shown, taxes))

    def _terrain(self, pool: Samples, view: ModelView) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Where each row lies, and the slope of the local loss at given rows."""
        if self.space == "features":
            if pool.features is None:
                points, slopes = view.features_and_gradients(pool.inputs, pool.labels)
            else:
                points = at_least_float(pool.features)
                slopes = view.gradients_at(points, pool.labels)
            return points, lambda rows: slopes[rows]
        points = pool.inputs.flatten(1)
        if self.candidates is None:  # too many to know beforehand, so as chains come by
            return points, lambda rows: view.input_gradients(
                pool.inputs[rows], pool.labels[rows]
            ).flatten(1)
        slopes = view.input_gradients(pool.inputs, pool.labels).flatten(1)
        return points, lambda rows: slopes[rows]


def spread(rows: int, device: torch.device | None = None) -> Tensor:
    """Take at most 256 rows, evenly spread, to measure units on."""
    few = min(rows, MEASURED)
    return torch.arange(few, device=device) * (rows - 1) // max(1, few - 1)


def measure(points: Tensor, slopes: Tensor, uses: Tensor) -> Units:
    """Take the units of a walk from the rows that it is about. What is not finite is left out."""
    apart = torch.cdist(points, points).fill_diagonal_(torch.inf).nan_to_num(torch.inf, torch.inf)
    nearest = apart.min(dim=1).values
    near = nearest.isfinite()
    distance = torch.where(near, nearest, 0).sum() / near.sum()
    steepness = slopes.norm(dim=1)
    slope = torch.where(steepness.isfinite(), steepness, torch.nan).nanquantile(STEEP)
    # One row, duplicates alone, or a perfect model leave nothing to measure by.
    measured = (distance > 0) & (slope > 0)
    step = torch.where(measured, distance / slope, 1)
    price = torch.where(measured, distance * slope, 1)
    return Units(step, price, uses.to(points.dtype).mean().clamp_min(1))


class Walk:
    """The chains of one slot, and what they leave behind: uses, prices, visits."""

    def __init__(
        self, rule: OGRS, pool: Samples, points: Tensor, slope_at: Callable[[Tensor], Tensor]
    ) -> None:
        self.rule = rule
        self.points = points
        self.labels = pool.labels
        self.slope_at = slope_at
        one = points.new_ones(())
        units = Units(one, one, one)
        if rule.scaled:
            rows = spread(len(pool), points.device)
            units = measure(points[rows], slope_at(rows), pool.uses)
        self.alpha = rule.step_size * units.step
        self.gamma = rule.price_step * units.price
        self.norms = points.square().sum(dim=1)
        # The constraint of eq. 4 for every row: how far it is used beyond what is allowed.
        self.excess = pool.uses.to(points.dtype) / units.uses - rule.max_uses
        self.one_use = 1 / units.uses
        self.price = points.new_zeros(1)
        self.highest_price = points.new_zeros(())
        self.regrets: list[Tensor] = []
        self.paths: list[Tensor] = []
        self.ends: list[Tensor] = []
        # Among few candidates the cost of every move is known at once, and chains look it up.
        self.costs = None
        if rule.candidates is not None:
            rows = all_rows(pool)
            self.slopes = slope_at(rows)
            self.costs = self._cost(rows, self.slopes, slice(None))

    def go(self, at: Tensor) -> None:
        """Walk a group of chains, in step, from these rows to the end."""
        rule = self.rule
        if not rule.carry_price:
            self.price = self.points.new_zeros(len(at))
        free = rule.starts == "all" and rule.uses == "picks" and not rule.carry_price
        if free and self.costs is not None and rule.dual_first:
            path, highest = walk_among(self.costs, self.excess, self.gamma, at, rule.steps)
            self.highest_price = torch.maximum(self.highest_price, highest)
            walked = path[:-1].T.contiguous()
            total_slope = functional.embedding_bag(walked, self.slopes, mode="sum")
        else:
            path, total_slope = self._go_step_by_step(at.clone())
        # Eq. 9 without its second term: a count of uses has no gradient in the sample.
        self.regrets.append(total_slope.norm(dim=1))
        self.paths.append(path)
        self.ends.append(path[-1])

    def tell(self, shown: Tensor, taxes: Tensor | None) -> Search:
        """Say what the walk did, in rows of the whole pool."""
        path = torch.cat(self.paths, dim=1)
        stepped_on = path[1:].flatten()
        visits = torch.zeros_like(shown).index_add_(0, stepped_on, torch.ones_like(stepped_on))
        stayed = (path[1:] == path[:-1]).to(self.points.dtype).mean()
        return Search(
            shown, visits, stayed, torch.cat(self.regrets).mean(), self.highest_price, taxes
        )

    def _go_step_by_step(self, at: Tensor) -> tuple[Tensor, Tensor]:
        rule, path = self.rule, [at.clone()]
        total_slope = torch.zeros_like(self.points[at])
        for step in range(rule.steps):
            slope = self.slope_at(at)
            last_of_picks = rule.starts == "picks" and step == rule.steps - 1
            self._move(at, slope, rule.uses == "visits" or last_of_picks)
            self.highest_price = torch.maximum(self.highest_price, self.price.max())
            path.append(at.clone())
            total_slope += slope
        return torch.stack(path), total_slope

    def _move(self, at: Tensor, slope: Tensor, counted: bool) -> None:
        """Move every chain by eq. 7, having raised its price by eq. 8."""
        rule = self.rule
        if (counted and rule.in_turn) or rule.carry_price:
            use = self.one_use if counted else 0 * self.one_use
            idle = self.gamma * (self.excess.max() + use * len(at)) <= 0 and not self.price.any()
            if not idle:
                self._move_in_turn(at, slope, use)
                return
        self._move_at_once(at, slope)
        if counted:
            self.excess.index_add_(0, at, self.one_use.expand(len(at)))

    def _move_at_once(self, at: Tensor, slope: Tensor) -> None:
        """Move all chains at the same instant: they may crowd onto the same unused sample."""
        if self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)
        at[:] = self._best(at, slope)
        if not self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)

    def _move_in_turn(self, at: Tensor, slope: Tensor, use: Tensor) -> None:
        """Move the chains one after another, so that each sees what those before it used."""
        for first in range(0, len(at), IN_TURN):
            block = slice(first, first + IN_TURN)
            for chain, cost in enumerate(self._cost_from(at[block], slope[block]), first):
                own = chain % len(self.price)
                if self.rule.dual_first:
                    self._raise_price(own, at[chain])
                at[chain] = (cost + self.price[own] * self.excess).argmin()
                self.excess[at[chain]] += use
                if not self.rule.dual_first:
                    self._raise_price(own, at[chain])

    def _raise_price(self, own: int, row: Tensor) -> None:
        self.price[own] = (self.price[own] + self.gamma * self.excess[row]).clamp_min(0)

    def _best(self, at: Tensor, slope: Tensor) -> Tensor:
        """Row of lowest cost and price for every chain."""
        if self.costs is not None:
            return (self.costs[at] + self.price[:, None] * self.excess).argmin(dim=1)
        if self.rule.squared and not self.rule.same_label:
            goals = self.points[at] - self.alpha * slope
            tax = 2 * self.alpha * self.price
            return nearest(goals, self.points, self.norms, tax, self.excess)
        lowest = self.points.new_full((len(at),), torch.inf)
        best = torch.zeros_like(at)
        for first in range(0, len(self.points), CHUNK):
            rows = slice(first, first + CHUNK)
            cost = self._cost(at, slope, rows) + self.price[:, None] * self.excess[rows]
            low, where = cost.min(dim=1)
            best = torch.where(low < lowest, where + first, best)
            lowest = torch.minimum(low, lowest)
        return best

    def _cost_from(self, at: Tensor, slope: Tensor) -> Tensor:
        return self._cost(at, slope, slice(None)) if self.costs is None else self.costs[at]

    def _cost(self, at: Tensor, slope: Tensor, rows: slice) -> Tensor:
        """Eq. 7 but for its price, for chains and rows; rows not to be stepped on are inf."""
        here, points = self.points[at], self.points[rows]
        if self.rule.squared:
            # The square completed, and the part that is the same for every row left out.
            goal = here - self.alpha * slope
            cost = (self.norms[rows] - 2 * goal @ points.T) / (2 * self.alpha)
        else:
            away = torch.cdist(here, points) / (2 * self.alpha)
            cost = slope @ points.T - (slope * here).sum(dim=1, keepdim=True) + away
        if self.rule.same_label:
            cost = cost.masked_fill(self.labels[at][:, None] != self.labels[rows], torch.inf)
        return cost.nan_to_num(torch.inf, torch.inf)
