"""The searches behind OGRS against loops written plainly, and the kernels against both."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Generator, Tensor

from tamis.selectors.ogrs import projection
from tamis.selectors.ogrs.projection import nearest, walk_among


def make_scan(seed: int, rows: int = 300, width: int = 20, chains: int = 9) -> tuple[Tensor, ...]:
    generator = Generator().manual_seed(seed)
    points = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    goals = torch.randn(chains, width, generator=generator, dtype=torch.float64)
    tax = 4 * torch.rand(chains, generator=generator, dtype=torch.float64) * (seed % 2)
    excess = torch.randn(rows, generator=generator, dtype=torch.float64)
    return goals, points, points.square().sum(dim=1), tax, excess


def naive_nearest(goals: Tensor, points: Tensor, tax: Tensor, excess: Tensor) -> list[int]:
    found = []
    for goal, price in zip(goals, tax, strict=True):
        scores = [
            ((point - goal).square().sum() + price * over).item()
            for point, over in zip(points, excess, strict=True)
        ]
        found.append(min(range(len(scores)), key=lambda row, all_=scores: all_[row]))
    return found


@pytest.mark.parametrize("chunk", [7, 100, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_a_scan_in_chunks_is_the_nearest_at_a_price(
    seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "CHUNK", chunk)
    goals, points, norms, tax, excess = make_scan(seed)
    found = nearest(goals, points, norms, tax, excess)
    assert found.tolist() == naive_nearest(goals, points, tax, excess)


def test_rows_that_are_not_finite_are_never_the_nearest() -> None:
    goals, points, _, tax, excess = make_scan(1)
    points[::2] = torch.nan
    points[1] = torch.inf
    found = nearest(goals, points, points.square().sum(dim=1), tax, excess)
    assert (found % 2 == 1).all()
    assert (found != 1).all()


def test_half_precision_finds_nearly_the_same() -> None:
    """Of rows and goals in bfloat16, at four neighbour distances."""
    goals, points, norms, tax, excess = make_scan(0, 2000, 64, 500)
    goals = points[:500] + 0.3 * goals
    rough = points.bfloat16()
    exact = nearest(goals, points, norms, tax, excess)
    found = nearest(goals, rough, rough.square().sum(dim=1), tax.bfloat16(), excess.bfloat16())
    assert (exact == found).float().mean() > 0.98


@pytest.mark.parametrize("limit", [-5.0, 0.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_walk_is_that_of_a_loop(seed: int, limit: float) -> None:
    generator = Generator().manual_seed(seed)
    costs = torch.randn(40, 40, generator=generator, dtype=torch.float64)
    excess = torch.randint(9, (40,), generator=generator).double() - 4 - limit
    gamma = torch.tensor(0.1, dtype=torch.float64)
    path, highest = walk_among(costs, excess, gamma, torch.arange(40), 7)
    top = 0.0
    for chain in range(40):
        at, price = chain, 0.0
        for step in range(7):
            assert path[step, chain] == at
            price = max(0.0, price + 0.1 * excess[at].item())
            top = max(top, price)
            at = (costs[at] + price * excess).argmin().item()
        assert path[7, chain] == at
    assert highest.item() == pytest.approx(top)


KERNELS = """
import torch
from tamis.selectors.ogrs.kernels import nearest_on_gpu, walk_on_gpu
from tamis.selectors.ogrs.projection import nearest_in_chunks, walk_in_steps

generator = torch.Generator().manual_seed(0)
for rows, width, chains in [(300, 52, 7), (513, 64, 130), (129, 36, 1)]:
    points = torch.randn(rows, width, generator=generator)
    points[3] = torch.nan
    given = (
        torch.randn(chains, width, generator=generator), points, points.square().sum(dim=1),
        5 * torch.rand(chains, generator=generator), torch.randn(rows, generator=generator),
    )
    assert torch.equal(nearest_on_gpu(*given), nearest_in_chunks(*given)), (rows, width, chains)
for size, steps in [(60, 10), (128, 5)]:
    given = (
        torch.randn(size, size, generator=generator), torch.randn(size, generator=generator),
        torch.tensor(0.3), torch.arange(size), steps,
    )
    for ours, twin in zip(walk_on_gpu(*given), walk_in_steps(*given), strict=True):
        assert torch.equal(ours, twin), (size, steps)
print("equal")
"""


@pytest.mark.skipif(not find_spec("triton"), reason="needs triton, which comes with CUDA's torch")
def test_the_kernels_equal_their_twins() -> None:
    """In Triton's interpreter, so that no GPU is needed."""
    run = subprocess.run(
        [sys.executable, "-c", KERNELS],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "equal\n", run.stderr[-2000:]
