"""Eq. 7 of the OGRS paper as a search: the sample of lowest cost, without a K x N matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from tamis.data import Search

CHUNK = 4096
"""Rows scored at a time: scores of 128 chains then fit into the cache of a core."""


def move_costs(
    origins: Tensor, gradients: Tensor, points: Tensor, norms: Tensor, alpha: Tensor
) -> Tensor:
    """Return the cost of eq. 7 without its price, (origins, points); inf where it is not finite.

    `norms` are the squared lengths of the points. The square is completed, and what is the same
    for every point is left out.
    """
    goals = origins - alpha * gradients
    costs = (norms - 2 * goals @ points.T) / (2 * alpha)
    return costs.nan_to_num(torch.inf, torch.inf)


def describe_walk(
    path: Tensor, regrets: Tensor, price: Tensor, rows: Tensor, taxes: Tensor | None = None
) -> Search:
    """Return the statistics of a walk; `path`, (steps + 1, chains), indexes `rows` of the pool."""
    stepped_on = path[1:].flatten()
    visits = torch.zeros_like(rows).index_add_(0, stepped_on, torch.ones_like(stepped_on))
    stayed = (path[1:] == path[:-1]).to(regrets.dtype).mean()
    return Search(rows, visits, stayed, regrets.mean(), price, taxes)


def nearest(goals: Tensor, points: Tensor, norms: Tensor, tax: Tensor, excess: Tensor) -> Tensor:
    """Return, for every goal, the row of lowest |point|^2 - 2 goal.point + tax * excess.

    `norms` are the squared lengths of the points; `tax` has one number for each goal, `excess` one
    for each row. That is eq. 7 with the square completed, times 2 alpha: a nearest neighbour at a
    price. Non-finite rows are never returned.
    """
    if points.device.type == "cuda":
        from tamis.selectors.ogrs.kernels import can_scan, nearest_on_gpu

        if can_scan(points):
            return nearest_on_gpu(goals, points, norms, tax, excess)
    return nearest_in_chunks(goals, points, norms, tax, excess)


def nearest_in_chunks(
    goals: Tensor, points: Tensor, norms: Tensor, tax: Tensor, excess: Tensor
) -> Tensor:
    """Compute `nearest` in torch by chunks of rows: memory is K x 4096 instead of K x N."""
    goals = goals.to(points.dtype)
    lowest = norms.new_full((len(goals),), torch.inf)
    best = torch.zeros(len(goals), dtype=torch.long, device=points.device)
    finite = bool(norms.isfinite().all())
    free = not bool(tax.any())
    for first in range(0, len(points), CHUNK):
        rows = slice(first, first + CHUNK)
        # Rows first: BLAS is fastest for contiguous rows times a matrix of few columns.
        scores = torch.addmm(norms[rows, None], points[rows], goals.T, alpha=-2)
        if not free:
            scores.addr_(excess[rows], tax)
        if not finite:
            scores.nan_to_num_(torch.inf, torch.inf)
        low, where = scores.min(dim=0)
        best = torch.where(low < lowest, where + first, best)
        lowest = torch.minimum(low, lowest)
    return best


def walk_among(
    costs: Tensor, excess: Tensor, gamma: Tensor, starts: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Return the rows of every step, (steps + 1, chains), and the highest price of any chain.

    `costs` are those of every move, (from, to). Every chain has a price of its own, raised by gamma
    times the excess of its row (eq. 8), and moves where cost + price * excess is lowest (eq. 7).
    """
    if costs.device.type == "cuda":
        from tamis.selectors.ogrs.kernels import walk_on_gpu

        return walk_on_gpu(costs, excess, gamma, starts, steps)
    return walk_in_steps(costs, excess, gamma, starts, steps)


def walk_in_steps(
    costs: Tensor, excess: Tensor, gamma: Tensor, starts: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Compute `walk_among` in torch, all chains at once, step by step."""
    path, price = [starts], costs.new_zeros(len(starts))
    highest = costs.new_zeros(())
    if gamma * excess.max() <= 0:  # no price can rise
        moves = costs.argmin(dim=1)
        for _ in range(steps):
            path.append(moves[path[-1]])
        return torch.stack(path), highest
    for _ in range(steps):
        at = path[-1]
        price = (price + gamma * excess[at]).clamp_min(0)
        highest = torch.maximum(highest, price.max())
        path.append((costs[at] + price[:, None] * excess).argmin(dim=1))
    return torch.stack(path), highest
