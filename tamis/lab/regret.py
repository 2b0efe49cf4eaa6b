"""How the regret grows with the steps of a chain: as sqrt(M) by the paper, as M by its proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from tamis.buffers import Growing
from tamis.data import Samples
from tamis.lab.ogrs_variants import OGRSVariant, Walk, printed
from tamis.lab.regret_measures import (
    Constants,
    Exponent,
    fit_exponent,
    lagrangian_regret,
    local_regret,
    multiplier_bound,
)
from tamis.model_view import ModelView
from tamis.models import logistic, mlp, start
from tamis.selectors import OGRS, Naive
from tamis.selectors.ogrs.rule import locate
from tamis.selectors.ogrs.units import evenly_spaced, measure
from tamis.selectors.sampling import all_rows, draw
from tamis.streams import Constant, DataSet, Replay, Symmetric, digits, gaussians
from tamis.training import Trainer


@dataclass(frozen=True)
class Settings:
    """Everything that the regret is measured with.

    `chains` start from rows of their own, so a pool of fewer rows has fewer. `step_size` counts
    in units of the data, as that of `OGRS()`, and is the same for every number of steps.
    `max_uses` is zeta where Slater's condition is to hold: it does while some row of the pool has
    fewer visits. Growth is late from `late` steps on.
    """

    steps: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    late: int = 32
    chains: int = 64
    seeds: int = 8
    step_size: float = OGRS.step_size
    max_uses: float = 4.0
    clean_ratio: float = 0.6
    slots: int = 500
    k: int = 32
    rate: float = 0.1


@dataclass(frozen=True)
class Case:
    """Data, a model, and the space in which chains walk."""

    name: str
    data: Callable[[int], DataSet]
    model: Callable[[tuple[int, ...], int], nn.Module]
    space: Literal["inputs", "features"]


CASES = (
    Case("gaussians, inputs", lambda seed: gaussians(seed=seed), logistic, "inputs"),
    Case("digits, inputs", lambda seed: digits(), mlp, "inputs"),
    Case("digits, features", lambda seed: digits(), mlp, "features"),
)


LIMITED, UNLIMITED, DEFAULT, RANDOM = "paper, zeta > 0", "paper, zeta = 0", "OGRS()", "random rows"
WAYS = (LIMITED, UNLIMITED, DEFAULT, RANDOM)
"""The theorem's conditions are met by the first alone. The last looks for nothing at all."""


class Terrain(NamedTuple):
    """A pool, where each of its rows lies, and the gradient of the local loss there."""

    pool: Samples
    points: Tensor
    gradients: Tensor

    def among(self, rows: Tensor) -> Terrain:
        """Keep these rows alone."""
        return Terrain(self.pool[rows], self.points[rows], self.gradients[rows])


class Chains(NamedTuple):
    """Recorded chains: a row of each step's start and of the end, then a price for every step.

    `gradients` are those where a step began, (chains, steps, width). `bound` is lemma 2's on the
    price of each chain, infinite where there is none.
    """

    rows: Tensor
    gradients: Tensor
    prices: Tensor
    bound: Tensor


class Recorder(Walk):
    """A walk of chains that share nothing, each as if it were alone, and are taken down.

    The theorem is about the selection of one sample, so no chain may raise another's price.
    Counts have an entry for every chain and row, so that all of them can walk in step.
    """

    def __init__(self, rule: OGRSVariant, terrain: Terrain, chains: int) -> None:
        pool, points, gradients = terrain
        alone = replace(rule, carry_price=False, one_by_one=False)
        super().__init__(alone, pool, points, lambda rows: gradients[rows])
        self.excess = self.excess.repeat(chains, 1)
        self.chain = torch.arange(chains, device=points.device)
        self.paid: list[Tensor] = []

    def record(self, starts: Tensor) -> Tensor:
        """Walk from these rows, and return the rows of every step, (chains, steps + 1)."""
        self.price = self.points.new_zeros(len(starts))
        return self._go_step_by_step(starts.clone())[0].T

    def _move(self, at: Tensor, gradient: Tensor, counted: bool) -> None:
        cost = self._cost_from(at, gradient)
        if self.rule.dual_first:
            self._pay(at)
        at[:] = (cost + self.price[:, None] * self.excess).argmin(dim=1)
        if counted:
            self.excess[self.chain, at] += self.one_use
        if not self.rule.dual_first:
            self._pay(at)
        self.paid.append(self.price)

    def _pay(self, at: Tensor) -> None:
        rise = self.gamma * self.excess[self.chain, at]
        self.price = (self.price + rise).clamp_min(0)  # eq. 8


def record(rule: OGRSVariant, terrain: Terrain, starts: Tensor) -> Chains:
    """Walk a chain from each of these rows, and take down where it went and what it paid."""
    walk = Recorder(rule, terrain, len(starts))
    rows = walk.record(starts)
    uses = walk.excess + rule.max_uses
    constants = Constants.of(terrain.points, terrain.gradients, uses, rule.max_uses)
    return Chains(
        rows,
        terrain.gradients[rows[:, :-1]],
        torch.stack(walk.paid, dim=1),
        multiplier_bound(constants, walk.alpha.item(), walk.gamma.item()),
    )


def wander(terrain: Terrain, starts: Tensor, steps: int, generator: Generator) -> Chains:
    """Step on random rows: what a regret is where nothing is looked for."""
    drawn = torch.randint(len(terrain.pool), (len(starts), steps), generator=generator)
    rows = torch.cat([starts[:, None], drawn], dim=1)
    free, unbounded = torch.zeros(len(starts), steps), torch.full((len(starts),), torch.inf)
    return Chains(rows, terrain.gradients[rows[:, :-1]], free, unbounded)


def train(case: Case, settings: Settings, seed: int) -> Terrain:
    """Train on everything for a while, right or wrong, so that gradients mean something."""
    data = case.data(seed)
    stream = Replay(
        data.inputs,
        data.labels,
        Symmetric(len(data.classes)),
        Constant(settings.clean_ratio),
        rows_per_slot=len(data.labels),
        seed=seed,
    )
    samples = next(iter(stream))
    model = start(case.model, data.input_shape, len(data.classes), seed)
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), settings.rate),
        Naive(),
        Growing(len(samples)),
        k=settings.k,
        ema=None,
        seed=seed,
    )
    trainer.step(samples)
    for _ in range(settings.slots - 1):
        trainer.step()
    return see(case.space, samples, trainer.view)


def see(space: Literal["inputs", "features"], pool: Samples, view: ModelView) -> Terrain:
    """Return the rows as points in this space, and the gradients there."""
    return Terrain(pool, *locate(pool, view, space))


Walking = Callable[[int], Chains]
"""A way to walk, given the number of steps."""


def ways_to_walk(
    settings: Settings, case: Case, terrain: Terrain, seed: int
) -> tuple[Walking, Walking, Walking, Walking]:
    """Make ready the four ways to walk, from the same rows."""
    generator = Generator().manual_seed(seed)
    order = draw(all_rows(terrain.pool), len(terrain.pool), generator)
    starts = order[: settings.chains]
    some = evenly_spaced(len(terrain.pool))
    units = measure(terrain.points[some], terrain.gradients[some], terrain.pool.uses)
    alpha = settings.step_size * units.step.item()

    def paper(steps: int, max_uses: float) -> Chains:
        gamma = steps**-0.25  # as lemma 2 has it; at 256 steps the 0.25 of the authors' script
        return record(printed(steps, alpha, gamma, max_uses), terrain, starts)

    def default(steps: int) -> Chains:
        rule = OGRSVariant(steps=steps, space=case.space)
        candidates = order[: max(rule.candidates or len(order), len(starts))]
        return record(rule, terrain.among(candidates), torch.arange(len(starts)))

    return (
        lambda steps: paper(steps, settings.max_uses),
        lambda steps: paper(steps, 0),
        default,
        lambda steps: wander(terrain, starts, steps, generator),
    )


class Reading(NamedTuple):
    """What is kept of the chains of one seed.

    Of every chain, for every number of steps, (chains, numbers of steps): its regrets, the share
    of its steps that ended where they began, the highest price and its bound by lemma 2. `path`
    is the highest price of any chain after each step of the longest walk.
    """

    lagrangian: Tensor
    local: Tensor
    stayed: Tensor
    price: Tensor
    bound: Tensor
    path: Tensor

    @classmethod
    def of(cls, walks: Iterable[Chains]) -> Reading:
        """Read chains recorded at each number of steps."""
        read = [
            (
                lagrangian_regret(chains.gradients),
                local_regret(chains.gradients),
                (chains.rows[:, 1:] == chains.rows[:, :-1]).float().mean(dim=1),
                chains.prices.amax(dim=1),
                chains.bound,
                chains.prices.amax(dim=0),
            )
            for chains in walks
        ]
        *columns, paths = zip(*read, strict=True)
        lagrangian, local, stayed, price, bound = (torch.stack(each, dim=1) for each in columns)
        return cls(lagrangian, local, stayed, price, bound, paths[-1])


@dataclass(frozen=True)
class Growth:
    """Mean regret at every number of steps, and the power of M it grows with: in all, and late."""

    mean: Tensor
    all: Exponent
    late: Exponent

    @classmethod
    def of(cls, settings: Settings, regrets: Tensor) -> Growth:
        """Fit regrets, (seeds, chains, numbers of steps)."""
        steps, generator = torch.tensor(settings.steps), Generator().manual_seed(0)
        late = steps >= settings.late
        return cls(
            regrets.mean(dim=(0, 1)),
            fit_exponent(steps, regrets, generator),
            fit_exponent(steps[late], regrets[..., late], generator),
        )


@dataclass(frozen=True)
class Result:
    """What one way to walk did in one case, over all seeds and chains.

    One entry for every number of steps: `stayed`, the mean share of steps that ended where they
    began; `price`, the highest that any chain came to; `bound`, the lowest of lemma 2's. `slater`:
    there is a bound for every chain. `within`: no chain passed its own. `path`: the highest price
    after each step of the longest walk.
    """

    case: str
    way: str
    lagrangian: Growth
    local: Growth
    stayed: Tensor
    price: Tensor
    bound: Tensor
    slater: bool
    within: bool
    path: Tensor

    @classmethod
    def of(cls, settings: Settings, case: Case, way: str, readings: Sequence[Reading]) -> Result:
        """Sum up the seeds."""
        all_of = Reading(*(torch.stack(column) for column in zip(*readings, strict=True)))
        return cls(
            case.name,
            way,
            Growth.of(settings, all_of.lagrangian),
            Growth.of(settings, all_of.local),
            all_of.stayed.mean(dim=(0, 1)),
            all_of.price.amax(dim=(0, 1)),
            all_of.bound.amin(dim=(0, 1)),
            bool(all_of.bound.isfinite().all()),
            bool((all_of.price <= all_of.bound).all()),
            all_of.path.amax(dim=0),
        )


def run_case(settings: Settings, case: Case, progress: Callable[[], None]) -> list[Result]:
    """Measure the four ways to walk in one case."""
    seeds = []
    for seed in range(settings.seeds):
        ways = ways_to_walk(settings, case, train(case, settings, seed), seed)
        seeds.append([Reading.of(way(steps) for steps in settings.steps) for way in ways])
        progress()
    return [
        Result.of(settings, case, name, readings)
        for name, readings in zip(WAYS, zip(*seeds, strict=True), strict=True)
    ]
