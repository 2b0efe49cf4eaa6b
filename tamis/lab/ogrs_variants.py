"""Variants of OGRS for experiments: the ablation, the authors' script, chains to be recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples, Search, to_device
from tamis.model_view import ModelView
from tamis.selectors.ogrs.projection import describe_walk, move_costs, nearest, walk_among
from tamis.selectors.ogrs.rule import check_steps, locate
from tamis.selectors.ogrs.units import Units, evenly_spaced, measure
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    is_trainable,
    lowest_marked,
    plan_rows,
)

NO_ROWS = torch.empty(0, dtype=torch.long)
IN_TURN = 32
"""Chains whose costs are computed at a time where they move in turn: a few rows of K x N."""
CHUNK = 8192
"""Rows of the pool scored at a time."""


@dataclass(frozen=True)
class OGRSVariant:
    """OGRS with every choice as a setting; by default the picks are those of `OGRS()`.

    Parameters
    ----------
    steps: M
    step_size: alpha
    price_step: gamma
    max_uses: zeta
    scaled: give step_size, price_step and max_uses in units of the data
    space: where the walk takes place
    candidates: random rows of the pool to walk among, at least 4 for each pick; None for all
    starts: "picks" walks one chain for each pick from a random row; "all" walks one from every
        row, and picks among the distinct ends
    uses: what counts as a use, every visit of a chain or the final pick
    same_label: step only on samples with the label of the one left
    in_turn: within a step, each chain sees where those before it have gone
    carry_price: all chains share one price, else each has its own
    one_by_one: a chain ends before the next begins
    squared: squared distance, as in eq. 7, else plain
    dual_first: raise the price (eq. 8) before the move (eq. 7), else after it
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

    def __post_init__(self) -> None:
        check_steps(self.steps, self.step_size, self.price_step)

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick rows where chains end."""
        draws = self.plan(len(pool), k, generator)
        rows, starts, keys = (to_device(part, pool.labels.device) for part in draws)
        k, among = min(k, len(pool)), pool
        if self.candidates is None:
            rows = all_rows(pool)
        else:
            among = pool[rows]
        walk = Walk(self, among, *self._locate(among, view))
        if self.starts == "all":
            starts = all_rows(among)
        for group in starts.split(1 if self.one_by_one else len(starts)):
            walk.go(group)
        ends = torch.cat(walk.ends)
        is_pick = torch.ones_like(ends, dtype=torch.bool)
        if self.starts == "all":
            reached = torch.zeros_like(rows, dtype=torch.bool).index_fill_(0, ends, True)
            ends, is_pick = lowest_marked(reached, keys[:-1], k)
        return Picks.only(rows[ends], is_pick & is_trainable(among, ends), walk.describe(rows))

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the candidates, the starts of chains, and random keys to order the ends by."""
        k, drawn, starts = min(k, rows), NO_ROWS, NO_ROWS
        if self.candidates is not None:
            drawn = plan_rows(rows, max(self.candidates, LEAST_PER_PICK * k), generator)
            rows = len(drawn)
        if self.starts == "picks":
            starts = torch.randint(rows, (k,), generator=generator)
        return drawn, starts, torch.rand(rows + 1, generator=generator)

    def _locate(self, pool: Samples, view: ModelView) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return each row as a point, and a function from rows to the gradients there."""
        if self.space == "inputs" and self.candidates is None:  # too many to compute beforehand
            return pool.inputs.flatten(1), lambda rows: view.input_gradients(
                pool.inputs[rows], pool.labels[rows]
            ).flatten(1)
        points, gradients = locate(pool, view, self.space)
        return points, lambda rows: gradients[rows]


def printed(
    steps: int = 5,
    step_size: float = 0.1,
    price_step: float = 0.25,
    max_uses: float = 1,
    *,
    candidates: int | None = None,
) -> OGRSVariant:
    """Return `PaperOGRS` as a variant: with candidates, or for its chains to be recorded."""
    return OGRSVariant(
        steps, step_size, price_step, max_uses, scaled=False, space="inputs",
        candidates=candidates, starts="picks", uses="visits", carry_price=True, one_by_one=True,
    )  # fmt: skip


def released() -> OGRSVariant:
    """Return the rule of the authors' script: one step, plain distance, no limit, price last.

    Its price enters divided by 50; a price that grows 50 times slower is the same.
    """
    return OGRSVariant(
        1, 0.1, 0.25 / 50, 0, scaled=False, space="inputs", candidates=None, starts="picks",
        uses="visits", carry_price=True, one_by_one=True, squared=False, dual_first=False,
    )  # fmt: skip


class Walk:
    """The chains of one slot, with their uses, prices and visits."""

    def __init__(
        self,
        rule: OGRSVariant,
        pool: Samples,
        points: Tensor,
        gradients_at: Callable[[Tensor], Tensor],
    ) -> None:
        self.rule = rule
        self.points = points
        self.labels = pool.labels
        self.gradients_at = gradients_at
        one = points.new_ones(())
        units = Units(one, one, one)
        if rule.scaled:
            rows = evenly_spaced(len(pool), points.device)
            units = measure(points[rows], gradients_at(rows), pool.uses)
        self.alpha = rule.step_size * units.step
        self.gamma = rule.price_step * units.price
        self.norms = points.square().sum(dim=1)
        self.excess = pool.uses.to(points.dtype) / units.uses - rule.max_uses  # g in eq. 4
        self.one_use = 1 / units.uses
        self.price = points.new_zeros(1)
        self.highest_price = points.new_zeros(())
        self.regrets: list[Tensor] = []
        self.paths: list[Tensor] = []
        self.ends: list[Tensor] = []
        # Among few candidates the cost of every move is computed once, and chains look it up.
        self.costs = None
        if rule.candidates is not None:
            rows = all_rows(pool)
            self.gradients = gradients_at(rows)
            self.costs = self._cost(rows, self.gradients, slice(None))

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
            total = functional.embedding_bag(walked, self.gradients, mode="sum")
        else:
            path, total = self._go_step_by_step(at.clone())
        # Eq. 9 without its second term: a number of uses has no gradient in the sample.
        self.regrets.append(total.norm(dim=1))
        self.paths.append(path)
        self.ends.append(path[-1])

    def describe(self, rows: Tensor) -> Search:
        """Return the statistics of the walk, in these rows of the pool."""
        path, regrets = torch.cat(self.paths, dim=1), torch.cat(self.regrets)
        return describe_walk(path, regrets, self.highest_price, rows)

    def _go_step_by_step(self, at: Tensor) -> tuple[Tensor, Tensor]:
        rule, path = self.rule, [at.clone()]
        total = torch.zeros_like(self.points[at])
        for step in range(rule.steps):
            gradient = self.gradients_at(at)
            last_of_picks = rule.starts == "picks" and step == rule.steps - 1
            self._move(at, gradient, rule.uses == "visits" or last_of_picks)
            self.highest_price = torch.maximum(self.highest_price, self.price.max())
            path.append(at.clone())
            total += gradient
        return torch.stack(path), total

    def _move(self, at: Tensor, gradient: Tensor, counted: bool) -> None:
        """Move every chain by eq. 7, having raised its price by eq. 8."""
        rule = self.rule
        if (counted and rule.in_turn) or rule.carry_price:
            use = self.one_use if counted else 0 * self.one_use
            idle = self.gamma * (self.excess.max() + use * len(at)) <= 0 and not self.price.any()
            if not idle:
                self._move_in_turn(at, gradient, use)
                return
        self._move_at_once(at, gradient)
        if counted:
            self.excess.index_add_(0, at, self.one_use.expand(len(at)))

    def _move_at_once(self, at: Tensor, gradient: Tensor) -> None:
        """Move all chains at the same instant: they may crowd onto the same unused sample."""
        if self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)
        at[:] = self._best(at, gradient)
        if not self.rule.dual_first:
            self.price = (self.price + self.gamma * self.excess[at]).clamp_min(0)

    def _move_in_turn(self, at: Tensor, gradient: Tensor, use: Tensor) -> None:
        """Move the chains one after another, so that each sees what those before it used."""
        for first in range(0, len(at), IN_TURN):
            block = slice(first, first + IN_TURN)
            for chain, cost in enumerate(self._cost_from(at[block], gradient[block]), first):
                own = chain % len(self.price)
                if self.rule.dual_first:
                    self._raise_price(own, at[chain])
                at[chain] = (cost + self.price[own] * self.excess).argmin()
                self.excess[at[chain]] += use
                if not self.rule.dual_first:
                    self._raise_price(own, at[chain])

    def _raise_price(self, own: int, row: Tensor) -> None:
        self.price[own] = (self.price[own] + self.gamma * self.excess[row]).clamp_min(0)

    def _best(self, at: Tensor, gradient: Tensor) -> Tensor:
        """Row of lowest cost and price for every chain."""
        if self.costs is not None:
            return (self.costs[at] + self.price[:, None] * self.excess).argmin(dim=1)
        if self.rule.squared and not self.rule.same_label:
            goals = self.points[at] - self.alpha * gradient
            tax = 2 * self.alpha * self.price
            return nearest(goals, self.points, self.norms, tax, self.excess)
        lowest = self.points.new_full((len(at),), torch.inf)
        best = torch.zeros_like(at)
        for first in range(0, len(self.points), CHUNK):
            rows = slice(first, first + CHUNK)
            cost = self._cost(at, gradient, rows) + self.price[:, None] * self.excess[rows]
            low, where = cost.min(dim=1)
            best = torch.where(low < lowest, where + first, best)
            lowest = torch.minimum(low, lowest)
        return best

    def _cost_from(self, at: Tensor, gradient: Tensor) -> Tensor:
        return self._cost(at, gradient, slice(None)) if self.costs is None else self.costs[at]

    def _cost(self, at: Tensor, gradient: Tensor, rows: slice) -> Tensor:
        """Return the cost of eq. 7 without its price; inf for rows that cannot be stepped on."""
        here, points = self.points[at], self.points[rows]
        if self.rule.squared:
            cost = move_costs(here, gradient, points, self.norms[rows], self.alpha)
        else:
            away = torch.cdist(here, points) / (2 * self.alpha)
            cost = gradient @ points.T - (gradient * here).sum(dim=1, keepdim=True) + away
        if self.rule.same_label:
            cost = cost.masked_fill(self.labels[at][:, None] != self.labels[rows], torch.inf)
        return cost.nan_to_num(torch.inf, torch.inf)
