"""Tables of numbers, categories and texts: the layout of an encoded row, and a model for them.

Numbers are embedded piecewise linearly (Gorishniy, Rubachev and Babenko, NeurIPS 2022), and a few
networks share all weights but a scale of their inputs (TabM-mini: Gorishniy, Kotelnikov and
Babenko, ICLR 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

CATEGORY_WIDTH, TEXT_WIDTH = 8, 32
"""Numbers that stand for a category, and for a text."""
SPREAD = 0.3
"""Standard deviation of the first weights of these: less than that of the numbers, which is 1."""
SOFT_LIMIT = 3.0
"""Deviations beyond which numbers are bent back; none gets farther (RealMLP's smooth clipping)."""
LARGEST = 1e38
"""Size that numbers are cut to, so that the difference of two is finite in single precision."""
FARTHEST = 1e9
"""Deviations that numbers are cut to: squares stay finite, and beyond is where they bend anyway."""
LOOKED = 20_000
"""Rows that quartiles and bins are taken from, spread over those given."""


@dataclass(frozen=True)
class TableLayout:
    """What the columns of an encoded row are, in this order.

    Parameters
    ----------
    numbers: columns on their raw scale, never NaN: numbers, flags, booleans, parts of dates.
    categories: one entry, the number of codes, for each column of codes; 0 is missing, 1 unseen.
    texts: one entry, (tokens, buckets), for each text: so many columns of n-gram ids below
        `buckets`, where 0 is padding.
    """

    numbers: int
    categories: tuple[int, ...] = ()
    texts: tuple[tuple[int, int], ...] = ()

    @property
    def width(self) -> int:
        """Columns of an encoded row."""
        return self.numbers + len(self.categories) + sum(tokens for tokens, _ in self.texts)


class TableModel(nn.Module):
    """Embeddings for every kind of column, and several perceptrons that share their weights.

    The last layer is linear in the features of all members side by side, so that logits are their
    mean. In training each row goes through one member, drawn at random: each learns its own way,
    and their mistakes are averaged out. `torch`'s generator draws, as for dropout.

    Parameters
    ----------
    layout: what the columns of a row are.
    classes: classes to predict.
    rows: encoded rows that the scale and the bins of the numbers are taken from.
    width: hidden units of a member, in each of two layers.
    members: perceptrons.
    bins: intervals of a number, each with as many rows as any other.
    dropout: share of hidden units dropped in training.
    """

    def __init__(
        self,
        layout: TableLayout,
        classes: int,
        rows: Tensor,
        *,
        width: int = 64,
        members: int = 8,
        bins: int = 16,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.layout, self.members = layout, members
        self.numbers = NumberEmbedding(rows[:, : layout.numbers], bins)
        self.categories = nn.ModuleList(
            nn.Embedding(codes, min(CATEGORY_WIDTH, codes)) for codes in layout.categories
        )
        self.texts = nn.ModuleList(
            nn.Embedding(buckets, TEXT_WIDTH, padding_idx=0) for _, buckets in layout.texts
        )
        for table in [*self.categories, *self.texts]:
            with torch.no_grad():
                table.weight.mul_(SPREAD)
        embedded = [part.embedding_dim for part in [*self.categories, *self.texts]]
        size = self.numbers.width + sum(embedded)
        self.signs = nn.Parameter(torch.randint(2, (members, size)) * 2.0 - 1)
        layers: list[nn.Module] = []
        for before, after in pairwise([size, width, width]):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.width, self.trunk = width, nn.Sequential(*layers)
        self.head = nn.Linear(members * width, classes)

    def settings(self) -> dict[str, int]:
        """Return what, beside layout and classes, a model of the same shape is built with."""
        bins = self.numbers.get_buffer("starts").shape[1]
        return {"width": self.width, "members": self.members, "bins": bins}

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of each row."""
        features: Tensor = self.trunk(self.embed(rows)[:, None] * self.signs)
        if self.training:
            drawn = torch.randint(self.members, (len(rows), 1), device=rows.device)
            others = torch.arange(self.members, device=rows.device) != drawn
            features = (features * self.members).masked_fill(others[:, :, None], 0)
        logits: Tensor = self.head(features.flatten(1))
        return logits

    def embed(self, rows: Tensor) -> Tensor:
        """Return what stands for the columns of each row, side by side."""
        layout = self.layout
        sizes = [layout.numbers, *[1] * len(self.categories), *[size for size, _ in layout.texts]]
        numbers, *rest = rows.split(sizes, dim=1)
        parts = [self.numbers(numbers.to(self.signs.dtype))]
        for table, codes in zip([*self.categories, *self.texts], rest, strict=True):
            ids = codes.long()
            # The mean over what is not padding; a category is one code, missing or not.
            kept = torch.ones_like(ids) if ids.shape[1] == 1 else (ids > 0).long()
            parts.append(table(ids).sum(dim=1) / kept.sum(dim=1, keepdim=True).clamp_min(1))
        return torch.cat(parts, dim=1)


class NumberEmbedding(nn.Module):
    """Numbers of robust unit scale, and beside each its place in every one of its bins.

    A bin has 0 for a number below it, 1 above it, and the share that lies below within.
    """

    def __init__(self, numbers: Tensor, bins: int) -> None:
        super().__init__()
        spread = numbers[:: max(1, math.ceil(len(numbers) / LOOKED))].double()
        spread = spread.clamp(-LARGEST, LARGEST)
        edges = quantiles(spread, bins)
        first, median, third = quantiles(spread, 4)[1:4]
        deviation = (spread - spread.mean(dim=0)).square().mean(dim=0).sqrt()
        robust = (third - first) / 1.349  # that of a normal distribution by its quartiles
        scale = torch.where(robust > 0, robust, torch.where(deviation > 0, deviation, 1))
        self.register_buffer("centre", median.float())
        self.register_buffer("factor", (1 / scale).clamp(max=LARGEST).float())
        self.register_buffer("starts", edges[:-1].T.float().contiguous())
        lengths = edges.diff(dim=0).T
        self.register_buffer(
            "shares", torch.where(lengths > 0, 1 / lengths, 0).clamp(max=LARGEST).float()
        )
        self.width = numbers.shape[1] * (1 + bins)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return (rows, numbers x (1 + bins)), all within bounds, however large a number is."""
        numbers = numbers.clamp(-LARGEST, LARGEST)
        scaled = (numbers - self.get_buffer("centre")) * self.get_buffer("factor")
        scaled = scaled.clamp(-FARTHEST, FARTHEST)
        bent = scaled / (1 + (scaled / SOFT_LIMIT).square()).sqrt()
        places = (numbers[:, :, None] - self.get_buffer("starts")) * self.get_buffer("shares")
        return torch.cat([bent, places.clamp(0, 1).flatten(1)], dim=1)


def quantiles(columns: Tensor, parts: int) -> Tensor:
    """Return the values that divide each column into parts of equal size, (parts + 1, columns)."""
    if not columns.numel():
        return columns.new_zeros(parts + 1, columns.shape[1])
    shares = torch.linspace(0, 1, parts + 1, dtype=columns.dtype, device=columns.device)
    return torch.quantile(columns, shares, dim=0)
