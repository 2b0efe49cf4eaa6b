"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023; the fast default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float
from tamis.selectors.ogrs.fairness import draw_fairly
from tamis.selectors.ogrs.projection import describe_walk, move_costs, walk_among
from tamis.selectors.ogrs.units import evenly_spaced, measure
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    is_trainable,
    lowest_marked,
    plan_rows,
)


@dataclass(frozen=True)
class OGRS:
    """Walk chains downhill through random candidates, at a price for samples used too often.

    A chain starts from every candidate. Each of its steps goes to the sample nearest to a step of
    gradient descent on the loss (eq. 7). Picks are drawn from the distinct samples where chains
    end: those of small gradient. docs/methods/ogrs.md has the reason for every default and every
    departure from the paper, whose algorithm to the letter is `PaperOGRS`.

    Step size, price step and uses are in units of the data, measured in every slot: distance
    between neighbours over a large gradient, the product of the two, and mean uses.

    Parameters
    ----------
    steps: steps of a chain, the paper's M
    step_size: alpha
    price_step: gamma, by which a chain's price mu rises with the excess of uses
    max_uses: zeta, uses of a sample from which on it costs a price
    space: where the walk takes place
    candidates: random rows of the pool to walk among, at least 4 for each pick
    fair_within: how far a group's share of the picks may exceed its share of the pool; None for
        no limit. Groups are the samples' own, or else their labels.
    """

    steps: int = 10
    step_size: float = 4.0
    price_step: float = 0.01
    max_uses: float = 8.0
    space: Literal["inputs", "features"] = "features"
    candidates: int = 128
    fair_within: float | None = None

    def __post_init__(self) -> None:
        check_steps(self.steps, self.step_size, self.price_step)

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick rows where chains end."""
        draws = self.plan(len(pool), k, generator)
        return self.choose(pool, view, k, *(to_device(part, pool.labels.device) for part in draws))

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, ...]:
        """Draw the candidates, and random keys to order their rows by."""
        candidates = max(self.candidates, LEAST_PER_PICK * min(k, rows))
        drawn = plan_rows(rows, candidates, generator)
        return drawn, torch.rand(len(drawn) + 1, generator=generator)

    def choose(self, pool: Samples, view: ModelView, k: int, *draws: Tensor) -> Picks:
        """Walk from every candidate, and pick among the ends."""
        rows, keys = draws
        k, pool = min(k, len(pool)), pool[rows]
        points, gradients = locate(pool, view, self.space)
        measured = evenly_spaced(len(pool), points.device)
        units = measure(points[measured], gradients[measured], pool.uses)
        excess = pool.uses.to(points.dtype) / units.uses - self.max_uses  # g in eq. 4
        norms = points.square().sum(dim=1)
        costs = move_costs(points, gradients, points, norms, self.step_size * units.step)
        price_step = self.price_step * units.price
        path, price = walk_among(costs, excess, price_step, all_rows(pool), self.steps)
        ends, is_pick, taxes = self._draw(path[-1], pool, k, keys)
        # Eq. 9 without its second term: a number of uses has no gradient in the sample.
        walked = path[:-1].T.contiguous()
        regrets = functional.embedding_bag(walked, gradients, mode="sum").norm(dim=1)
        search = describe_walk(path, regrets, price, rows, taxes)
        return Picks.only(rows[ends], is_pick & is_trainable(pool, ends), search)

    def _draw(
        self, ends: Tensor, pool: Samples, k: int, keys: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return k distinct ends of lowest key, a mask of real picks, and the groups' taxes."""
        if self.fair_within is None:
            reached = torch.zeros_like(pool.labels, dtype=torch.bool).index_fill_(0, ends, True)
            return *lowest_marked(reached, keys[:-1], k), None
        groups = pool.labels if pool.groups is None else pool.groups
        ends, taxes = draw_fairly(ends.unique(), groups, self.fair_within, k, keys)
        return ends, torch.ones_like(ends, dtype=torch.bool), taxes


def check_steps(steps: int, step_size: float, price_step: float) -> None:
    """Raise a ValueError where a walk cannot take such steps."""
    if steps < 1 or step_size <= 0 or price_step < 0:
        raise ValueError(
            "OGRS needs steps >= 1, step_size > 0 and price_step >= 0, "
            f"got steps={steps}, step_size={step_size}, price_step={price_step}."
        )


def locate(
    pool: Samples, view: ModelView, space: Literal["inputs", "features"]
) -> tuple[Tensor, Tensor]:
    """Return each row as a point in this space, and the gradient of its local loss there."""
    if space == "inputs":
        gradients = view.input_gradients(pool.inputs, pool.labels)
        return pool.inputs.flatten(1), gradients.flatten(1)
    if pool.features is None:
        return view.features_and_gradients(pool.inputs, pool.labels)
    points = at_least_float(pool.features)
    return points, view.gradients_at(points, pool.labels)
