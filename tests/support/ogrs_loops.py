"""The loops of OGRS, written out row by row and chain by chain, with small pools to run them on."""

from __future__ import annotations

import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.lab.ogrs_variants import OGRSVariant
from tamis.model_view import ModelView
from tamis.models import mlp
from tamis.selectors import PaperOGRS, Selector


def make_pool(seed: int, rows: int = 60) -> Samples:
    generator = Generator().manual_seed(seed)
    inputs = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    return Samples.of(inputs, torch.randint(2, (rows,), generator=generator))


def make_model(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp((3,), 2).double()


def starts_of(pool: Samples, k: int, seed: int) -> list[int]:
    return torch.randint(len(pool), (k,), generator=Generator().manual_seed(seed)).tolist()


def select(selector: Selector, pool: Samples, view: ModelView, k: int, seed: int) -> list[int]:
    return selector.select(pool, view, k, Generator().manual_seed(seed)).rows.tolist()


def paper_loop(
    rule: PaperOGRS | OGRSVariant,
    pool: Samples,
    view: ModelView,
    starts: list[int],
    carry_price: bool = True,
) -> list[int]:
    """Algorithm 1: dual first (eq. 8), then primal (eq. 7); every visit is a use."""
    uses, price, ends = pool.uses.tolist(), 0.0, []
    for at in starts:
        if not carry_price:
            price = 0.0
        for _ in range(rule.steps):
            gradient = view.input_gradients(pool.inputs[[at]], pool.labels[[at]])[0]
            price = max(0.0, price + rule.price_step * (uses[at] - rule.max_uses))
            best, lowest = -1, float("inf")
            for row, point in enumerate(pool.inputs):
                offset = point - pool.inputs[at]
                cost = (
                    (gradient @ offset).item()
                    + price * (uses[row] - rule.max_uses)
                    + (offset @ offset).item() / (2 * rule.step_size)
                )
                if cost < lowest:
                    best, lowest = row, cost
            at = best
            uses[at] += 1
        ends.append(at)
    return ends


def released_loop(pool: Samples, view: ModelView, starts: list[int]) -> list[int]:
    """The rule of the authors' script: one move, plain distance, the price after the move."""
    uses, price, ends = pool.uses.tolist(), 0.0, []
    for at in starts:
        gradient = view.input_gradients(pool.inputs[[at]], pool.labels[[at]])[0]
        costs = []
        for row, point in enumerate(pool.inputs):
            offset = point - pool.inputs[at]
            costs.append((gradient @ offset + price / 50 * uses[row] + offset.norm() / 0.2).item())
        at = costs.index(min(costs))
        uses[at] += 1
        price += 0.25 * uses[at]
        ends.append(at)
    return ends


def loop_in_turn(rule: OGRSVariant, pool: Samples, view: ModelView, starts: list[int]) -> list[int]:
    """Chains in step and, within a step, one after another; each has a price of its own."""
    uses, prices, at = pool.uses.double(), [0.0] * len(starts), list(starts)
    for _ in range(rule.steps):
        gradients = view.input_gradients(pool.inputs[at], pool.labels[at])
        for chain, gradient in enumerate(gradients):
            prices[chain] += rule.price_step * (uses[at[chain]].item() - rule.max_uses)
            prices[chain] = max(0.0, prices[chain])
            offsets = pool.inputs - pool.inputs[at[chain]]
            cost = offsets @ gradient + offsets.square().sum(dim=1) / (2 * rule.step_size)
            at[chain] = (cost + prices[chain] * (uses - rule.max_uses)).argmin().item()
            uses[at[chain]] += 1
    return at
