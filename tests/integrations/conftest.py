"""Rows with wrong labels, and the plain loop that every integration must agree with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tamis import (
    ITLM,
    OGRS,
    Average,
    ModelView,
    Picks,
    Plausible,
    Samples,
    Selector,
    Sieve,
    Slot,
    Trainer,
)

POOL, K, RATE, EPOCHS = 64, 16, 0.1, 2


@dataclass(frozen=True)
class Rows:
    inputs: Tensor
    labels: Tensor
    ids: Tensor

    def pools(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Two epochs of pools, in order."""
        rows = torch.arange(len(self.ids)).split(POOL)
        return [(self.inputs[at], self.labels[at], self.ids[at]) for at in rows] * EPOCHS


class Recording(Sieve):
    """A sieve that keeps the ids of all its picks, in order."""

    def __init__(self, model: nn.Module, selector: Selector) -> None:
        super().__init__(model, K, selector, window="average", warm_up=0)
        self.log: list[list[int]] = []

    def pick(self, *given: object, **named: object) -> Picks:
        picks = super().pick(*given, **named)
        self.log.append(self.picked.tolist())
        return picks


@pytest.fixture
def rows() -> Rows:
    generator = torch.Generator().manual_seed(1)
    truth = torch.randint(3, (256,), generator=generator)
    centres = torch.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    inputs = centres[truth] + torch.randn(256, 2, generator=generator)
    wrong = torch.rand(256, generator=generator) < 0.3
    return Rows(inputs, torch.where(wrong, (truth + 1) % 3, truth), torch.arange(256))


@pytest.fixture
def net() -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))

    return make


@pytest.fixture(params=[Plausible, OGRS, ITLM])
def fresh(request: pytest.FixtureRequest) -> Callable[[], Selector]:
    return request.param


@pytest.fixture
def recording() -> type[Recording]:
    return Recording


@pytest.fixture
def train_plainly() -> Callable[..., list[list[int]]]:
    """The plain loop: what is picked, while the model is trained."""

    def train(
        selector: Selector, model: nn.Module, pools: Iterable[tuple], gathered: int = 1
    ) -> list[list[int]]:
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        generator, average = torch.Generator().manual_seed(0), Average(0.99)
        uses: Counter[int] = Counter()
        picked = []
        for number, (inputs, labels, ids) in enumerate(pools, 1):
            used = torch.tensor([uses[row] for row in ids.tolist()])
            pool = Samples(inputs, labels, ids, used)
            picks = selector.select(pool, ModelView(model, average), K, generator).real()
            picked.append(ids[picks.rows].tolist())
            uses.update(picked[-1])
            targets = labels[picks.rows] if picks.targets is None else picks.targets
            losses = cross_entropy(model(inputs[picks.rows]), targets, reduction="none")
            loss = losses.mean() if picks.weights is None else (losses * picks.weights).mean()
            (loss / gathered).backward()
            if number % gathered == 0:
                optimizer.step()
                optimizer.zero_grad()
                average.update(model)
        return picked

    return train


@pytest.fixture
def same_weights() -> Callable[[nn.Module, nn.Module], bool]:
    """Equal to the last bit."""

    def same(one: nn.Module, other: nn.Module) -> bool:
        pairs = zip(one.parameters(), other.parameters(), strict=True)
        return all(torch.equal(a, b) for a, b in pairs)

    return same


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The ids that trainers pick from here on, a list a slot."""
    picked: list[list[int]] = []
    step = Trainer.step

    def watched(self: Trainer, *given: object) -> Slot:
        slot = step(self, *given)
        picked.append(slot.ids.tolist())
        return slot

    monkeypatch.setattr(Trainer, "step", watched)
    return picked
