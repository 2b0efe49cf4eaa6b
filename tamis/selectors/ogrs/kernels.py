"""The two searches of `projection` as Triton kernels: one pass each, no scores in memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

GOALS = 128
"""Goals that one program scores its rows for."""


@triton.jit
def scan(
    goals, points, norms, tax, excess, lowest, best, rows, chains,
    WIDTH: tl.constexpr, GOALS: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Score a block of rows for a block of goals; keep the lowest score of each goal, and its row.

    The score is |point|^2 - 2 goal.point + tax * excess. `goals` and `points` are descriptors, for
    the copy engine; beyond their edges they read as 0.
    """
    block, first_goal = tl.program_id(0), tl.program_id(1) * GOALS
    row, goal = block * ROWS + tl.arange(0, ROWS), first_goal + tl.arange(0, GOALS)
    is_row, is_goal = row < rows, goal < chains
    product = tl.zeros([GOALS, ROWS], dtype=tl.float32)
    for depth in range(0, WIDTH, DEPTH):
        goal_part = goals.load([first_goal, depth])
        point_part = points.load([block * ROWS, depth])
        product = tl.dot(goal_part, point_part.T, product, input_precision=PRECISION)
    norm = tl.load(norms + row, mask=is_row, other=float("inf"))
    over = tl.load(excess + row, mask=is_row, other=0.0)
    price = tl.load(tax + goal, mask=is_goal, other=0.0)
    score = norm[None, :] - 2 * product + over[None, :] * price[:, None]
    score = tl.where(score == score, score, float("inf"))  # nan is never lowest
    low, where = tl.min(score, axis=1, return_indices=True, return_indices_tie_break_left=True)
    tl.store(lowest + block * chains + goal, low, mask=is_goal)
    tl.store(best + block * chains + goal, block * ROWS + where, mask=is_goal)


def can_scan(points: Tensor) -> bool:
    """Return whether the copy engine can read these points: rows of a multiple of 16 bytes."""
    return points.is_contiguous() and points.shape[1] * points.element_size() % 16 == 0


def nearest_on_gpu(
    goals: Tensor, points: Tensor, norms: Tensor, tax: Tensor, excess: Tensor
) -> Tensor:
    """Return the row of lowest score for every goal, reading every point once.

    Points in bfloat16 are multiplied as such. Those in float32 are multiplied in three passes of
    TF32, which keeps the precision of float32, or in one where torch's own switch allows it:
    `torch.set_float32_matmul_precision("high")`.
    """
    half = points.dtype == torch.bfloat16
    exact = not half and torch.get_float32_matmul_precision() == "highest"
    height, depth = (256, 64) if half else (128, 32)
    blocks, chains = triton.cdiv(len(points), height), len(goals)
    goals = goals.to(points.dtype).contiguous()
    lowest = torch.empty(blocks, chains, device=points.device)
    best = torch.empty(blocks, chains, dtype=torch.int32, device=points.device)
    scan[blocks, triton.cdiv(chains, GOALS)](
        TensorDescriptor.from_tensor(goals, [GOALS, depth]),
        TensorDescriptor.from_tensor(points, [height, depth]),
        norms.float(), tax.float().expand(chains).contiguous(), excess.float(), lowest, best,
        len(points), chains, WIDTH=points.shape[1], GOALS=GOALS, ROWS=height, DEPTH=depth,
        PRECISION="tf32x3" if exact else "tf32", num_warps=8, num_stages=3 if exact else 4,
    )  # fmt: skip
    block = lowest.argmin(dim=0, keepdim=True)
    return best.gather(0, block)[0].long()


@triton.jit
def walk(
    costs, excess, gamma, starts, path, highest, candidates, chains, steps, SPAN: tl.constexpr
):  # fmt: skip
    """Walk one chain from its start to its end."""
    chain = tl.program_id(0)
    row = tl.arange(0, SPAN)
    is_row = row < candidates
    over = tl.load(excess + row, mask=is_row, other=0.0)
    rise = tl.load(gamma)
    at = tl.load(starts + chain)
    tl.store(path + chain, at)
    price = 0.0
    high = 0.0
    for step in range(steps):
        price = tl.maximum(price + rise * tl.load(excess + at), 0.0)
        high = tl.maximum(high, price)
        cost = tl.load(costs + at * candidates + row, mask=is_row, other=float("inf"))
        at = tl.argmin(cost + price * over, axis=0, tie_break_left=True).to(tl.int64)
        tl.store(path + (step + 1) * chains + chain, at)
    tl.store(highest + chain, high)


def walk_on_gpu(
    costs: Tensor, excess: Tensor, gamma: Tensor, starts: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Return the path of every chain and the highest price, from one launch."""
    chains = len(starts)
    path = torch.empty(steps + 1, chains, dtype=torch.long, device=costs.device)
    highest = torch.empty(chains, device=costs.device)
    walk[(chains,)](
        costs.float(), excess.float(), gamma.float(), starts, path, highest,
        len(costs), chains, steps, SPAN=triton.next_power_of_2(len(costs)), num_warps=4,
    )  # fmt: skip
    return path, highest.max().to(costs.dtype)
