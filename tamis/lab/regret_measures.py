"""How far recorded chains stay from rest: local regret, Lagrangian regret, and lemma 2's bound.

Hazan, Singh and Zhang, 2017, for the local regret; Yang, Koppel and Zhang, 2023, for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor


def local_regret(gradients: Tensor) -> Tensor:
    """Sum the squared gradients of each chain: Hazan's w-local regret, the paper's eq. 3.

    `gradients` are gradients of the local loss where each step began, (..., steps, width).

    >>> local_regret(torch.tensor([[3.0, 4.0], [-3.0, -4.0]]))
    tensor(50.)
    """
    return gradients.square().sum(dim=(-2, -1))


def lagrangian_regret(gradients: Tensor) -> Tensor:
    """Norm of the sum of each chain's gradients, eq. 9. Opposite gradients cancel.

    >>> lagrangian_regret(torch.tensor([[3.0, 4.0], [-3.0, -4.0]]))
    tensor(0.)
    """
    # Eq. 9 without its second term: a count of uses has no gradient in the sample.
    return gradients.sum(dim=-2).square().sum(dim=-1).sqrt()


@dataclass(frozen=True)
class Constants:
    """What the paper assumes to be bounded, measured.

    In the paper's letters: excess is G, steepest is F1, diameter is D, margin is epsilon. Excess
    and margin have one entry for each set of counts.
    """

    excess: Tensor
    steepest: float
    diameter: float
    margin: Tensor

    @classmethod
    def of(cls, points: Tensor, gradients: Tensor, uses: Tensor, max_uses: float) -> Constants:
        """Measure a pool, and the counts of its rows after a walk, (..., rows).

        Counts only rise, so a row that keeps a margin at the end has kept it all along.
        """
        return cls(
            (uses - max_uses).abs().amax(dim=-1),
            gradients.norm(dim=1).max().item(),
            torch.cdist(points, points).max().item(),
            max_uses - uses.amin(dim=-1),
        )


def multiplier_bound(
    constants: Constants, step_size: float, price_step: float, span: int = 1
) -> Tensor:
    """Bound the price by lemma 2, before its last line puts M^(-1/4) for gamma.

    In the paper's letters: step_size is alpha, price_step is gamma, span is i_0, which the lemma
    leaves open. Infinite where Slater's condition fails: then the lemma bounds nothing.
    """
    excess, margin = constants.excess, constants.margin
    reach = price_step * excess  # the most that the price moves in a step: lemma 1
    # Below 1 the lemma it leans on (Yu, Neely and Wei, 2017, lemma 5) has no such term.
    log = (32 * reach.square() / margin.square()).log().clamp_min(0)
    threshold = (
        reach.square()
        + 4 * price_step * constants.steepest * constants.diameter
        + constants.diameter**2 / (2 * step_size)
    ) / margin
    bound = threshold + span * (reach + 8 * reach.square() / margin * log)
    return torch.where(margin > 0, bound, torch.inf)


class Exponent(NamedTuple):
    """A power of M, and the interval that holds it in 95 of 100 cases."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (round(power, 2) + 0.0 for power in self)  # + 0.0 makes -0.0 a 0.0
        return f"{value:.2f} ({low:.2f}, {high:.2f})"


def fit_exponent(
    steps: Tensor, regrets: Tensor, generator: Generator, draws: int = 1000
) -> Exponent:
    """Fit the power of M that a mean regret grows with: least squares in the two logarithms.

    `regrets` are (repeats, chains, steps). The bootstrap draws repeats and then chains of each,
    since chains of one repeat share a pool and a model; a chain keeps its regrets at all steps.

    >>> steps = torch.tensor([1.0, 4.0, 16.0])
    >>> fit_exponent(steps, steps.sqrt().expand(2, 5, 3), Generator().manual_seed(0)).value
    0.5
    """
    repeats, chains, count = regrets.shape
    if count < 2:
        raise ValueError("A power of M needs regrets at two numbers of steps or more.")
    if not (regrets.mean(dim=(0, 1)) > 0).all():
        raise ValueError("A regret of 0 has no logarithm: no chain had a gradient.")
    repeat = torch.randint(repeats, (draws, repeats, 1), generator=generator)
    chain = torch.randint(chains, (draws, repeats, chains), generator=generator)
    drawn = slope_of(steps, regrets[repeat, chain].mean(dim=(1, 2)))
    low, high = drawn.quantile(drawn.new_tensor([0.025, 0.975])).tolist()
    return Exponent(slope_of(steps, regrets.mean(dim=(0, 1))).item(), low, high)


def slope_of(steps: Tensor, regrets: Tensor) -> Tensor:
    """Return the slope of the straight line through log regrets, (..., steps), over log steps."""
    across = steps.to(torch.float64).log()
    across = across - across.mean()
    return regrets.to(torch.float64).log() @ across / across.square().sum()
