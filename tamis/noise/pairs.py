"""Counts of rows by predicted class, given label and bin of confidence: for few or many classes."""

from __future__ import annotations

import math
from typing import Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional

from tamis.noise.agreement import BINS, Observed, move_bins

MANY_CLASSES = 128
"""Classes up to which each pair of them has counts of its own: with more, only pairs that occurred
take memory, which would otherwise grow with the square of the classes."""
MOST_ROWS = 65_536
"""Rows whose pairs are kept, at the most, where there are many classes."""
HALF_LIVES = 16
"""Half-lives after which the pair of a row is forgotten; it weighs 1 / 65,536 by then."""


class Pairs(Protocol):
    """Faded counts of rows by predicted class, given label and bin of confidence."""

    def count(self, rows: Observed, fade: Tensor) -> None:
        """Multiply all counts by `fade`, and count rows."""
        ...

    def move(self, weight: float, predicted: int, old: int, new: int, at: int) -> None:
        """Count a weight under another label; no more is taken from the old one than is there."""
        ...

    def counts(self, weights: Tensor | None = None) -> Tensor:
        """Return counts by predicted class and given label, on the CPU, bins times `weights`.

        With many classes it is a sparse tensor, coalesced.
        """
        ...

    def minus(self, others: Self) -> Self:
        """Return the counts less others, at least 0."""
        ...

    def grow(self, classes: int, half_life: float, rise: float) -> Pairs:
        """Return the counts for so many classes, with confidences `rise` bins higher."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        ...


class DensePairs:
    """Pairs of few classes: a count for each pair and bin."""

    def __init__(self, classes: int) -> None:
        self._counts = torch.zeros(classes, classes, BINS, dtype=torch.float64)

    def count(self, rows: Observed, fade: Tensor) -> None:
        """Multiply all counts by `fade`, and count rows."""
        self._counts = self._counts.to(rows.labels.device)
        self._counts *= fade
        place = (rows.predicted, rows.labels, rows.bins)
        self._counts.index_put_(place, rows.known, accumulate=True)

    def move(self, weight: float, predicted: int, old: int, new: int, at: int) -> None:
        """Count a weight under another label; no more is taken from the old one than is there."""
        self._counts[predicted, old, at] -= min(weight, self._counts[predicted, old, at].item())
        self._counts[predicted, new, at] += weight

    def counts(self, weights: Tensor | None = None) -> Tensor:
        """Return counts by predicted class and given label, bins times `weights`."""
        if weights is None:
            return self._counts.sum(dim=2).cpu()
        return (self._counts.cpu() * weights).sum(dim=2)

    def minus(self, others: Self) -> Self:
        """Return the counts less others, at least 0."""
        left = type(self)(len(self._counts))
        left._counts = (self._counts - others._counts).clamp_min(0)
        return left

    def grow(self, classes: int, half_life: float, rise: float) -> Pairs:
        """Return the counts for so many classes; if many, the largest counts as rows."""
        more, moved = classes - len(self._counts), move_bins(self._counts, rise)
        grown = pairs_for(classes, half_life)
        if isinstance(grown, RecentPairs):
            place = moved.nonzero()
            values = moved[tuple(place.T)]
            order = values.argsort(stable=True)
            predicted, labels, bins = place[order].T
            grown.write((predicted * classes + labels) * BINS + bins, values[order])
        elif isinstance(grown, DensePairs):
            grown._counts = functional.pad(moved, (0, 0, 0, more, 0, more))
        return grown

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts."""
        return {"pairs": self._counts.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._counts = state["pairs"].clone()


class RecentPairs:
    """Pairs of many classes: those of the last rows, each with a weight that fades.

    The sums over rows are those of `DensePairs`, but for rounding and for rows forgotten.
    """

    def __init__(self, classes: int, most: int = MOST_ROWS) -> None:
        self.classes = classes
        self._keys = torch.zeros(most, dtype=torch.long)
        self._weights = torch.zeros(most, dtype=torch.float64)
        self._written = 0

    def count(self, rows: Observed, fade: Tensor) -> None:
        """Multiply all weights by `fade`, and write rows over the oldest."""
        self._weights = self._weights.to(rows.labels.device)
        self._weights *= fade
        keys = (rows.predicted * self.classes + rows.labels) * BINS + rows.bins
        self.write(keys, rows.known)

    def move(self, weight: float, predicted: int, old: int, new: int, at: int) -> None:
        """Count a weight under another label; no more is taken from the old one than is there."""
        key = (predicted * self.classes + torch.tensor([old, new])) * BINS + at
        found = self._keys == key[0].item()
        there = (self._weights * found).sum().item()
        if there > 0:
            self._weights[found] *= 1 - min(weight, there) / there
        self.write(key[1:], torch.tensor([weight], dtype=torch.float64))

    def counts(self, weights: Tensor | None = None) -> Tensor:
        """Return counts by predicted class and given label, bins times `weights`: sparse."""
        held = min(self._written, len(self._keys))
        keys, values = self._keys[:held].cpu(), self._weights[:held].cpu()
        if weights is not None:
            values = values * weights[keys % BINS]
        pairs = keys // BINS
        return sparse(pairs // self.classes, pairs % self.classes, values, self.classes)

    def minus(self, others: Self) -> Self:
        """Return the counts less others, at least 0."""
        weights = torch.cat([self._weights, -others._weights.to(self._weights)])
        keys = torch.cat([self._keys, others._keys.to(self._keys)])
        cells, place = keys.unique(return_inverse=True)
        left = type(self)(self.classes, len(cells))
        sums = weights.new_zeros(len(cells)).index_add_(0, place, weights)
        left.write(cells, sums.clamp_min(0))
        return left

    def grow(self, classes: int, half_life: float, rise: float) -> Pairs:
        """Return the counts for so many classes, in bins to the nearest."""
        pairs, bins = self._keys // BINS, self._keys % BINS
        bins = (bins + round(rise)).clamp(0, BINS - 1)
        pairs = pairs // self.classes * classes + pairs % self.classes
        self._keys, self.classes = pairs * BINS + bins, classes
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return keys and weights, oldest first."""
        held = min(self._written, len(self._keys))
        order = (self._written - held + torch.arange(held)) % max(1, len(self._keys))
        order = order.to(self._keys.device)
        return {"pair_keys": self._keys[order], "pair_weights": self._weights[order]}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned, as far as there is room for it."""
        self._keys, self._written = torch.zeros_like(self._keys), 0
        self._weights = torch.zeros_like(self._weights)
        self.write(state["pair_keys"], state["pair_weights"])

    def write(self, keys: Tensor, weights: Tensor) -> None:
        """Write keys and weights over the oldest."""
        self._keys, self._weights = self._keys.to(keys.device), self._weights.to(keys.device)
        count = min(len(keys), len(self._keys))
        if not count:
            return
        places = (self._written + torch.arange(count, device=keys.device)) % len(self._keys)
        self._keys[places], self._weights[places] = keys[-count:], weights[-count:]
        self._written += count


def pairs_for(classes: int, half_life: float) -> Pairs:
    """Return the counts that suit so many classes."""
    if classes <= MANY_CLASSES:
        return DensePairs(classes)
    return RecentPairs(classes, math.ceil(min(MOST_ROWS, HALF_LIVES * half_life)))


def sparse(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Tensor:
    """Return a square matrix of these entries; those of the same place are added."""
    places = torch.stack([rows, columns])
    return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=False).coalesce()


def off_diagonal(counts: Tensor) -> Tensor:
    """Return counts with zeros on the diagonal."""
    if not counts.is_sparse:
        return counts.clone().fill_diagonal_(0)
    rows, columns = counts.indices()
    return sparse(rows, columns, counts.values() * (rows != columns), len(counts))


def cells(counts: Tensor) -> Tensor:
    """Return all counts that may differ from 0."""
    return counts.values() if counts.is_sparse else counts


def to_shares(counts: Tensor, prior: float) -> Tensor:
    """Return counts, with a prior on the diagonal, as shares of their row."""
    own = torch.arange(len(counts))
    if not counts.is_sparse:
        counts = counts + prior * torch.eye(len(counts))
        return counts / counts.sum(dim=1, keepdim=True)
    priors = torch.full((len(counts),), prior, dtype=counts.dtype)
    counts = (counts + sparse(own, own, priors, len(counts))).coalesce()
    rows, columns = counts.indices()
    return sparse(rows, columns, counts.values() / row_sums(counts)[rows], len(counts))


def row_sums(counts: Tensor) -> Tensor:
    """Return the sum of each row."""
    if not counts.is_sparse:
        return counts.sum(dim=1)
    none = counts.values().new_zeros(len(counts))
    return none.index_add_(0, counts.indices()[0], counts.values())


def largest_columns(counts: Tensor) -> Tensor:
    """Return the column of the largest count of each row; 0 in a row without any."""
    if not counts.is_sparse:
        return counts.argmax(dim=1)
    rows, columns = counts.indices()
    most = counts.values().new_zeros(len(counts))
    most.scatter_reduce_(0, rows, counts.values(), "amax")
    best = columns.where(counts.values() == most[rows], len(counts))
    found = torch.full((len(counts),), len(counts)).scatter_reduce_(0, rows, best, "amin")
    return found.where((found < len(counts)) & (most > 0), 0)


def counts_at(counts: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the counts at these places."""
    if not counts.is_sparse:
        return counts[rows, columns]
    counts = counts.coalesce()
    size, (known_rows, known_columns) = len(counts), counts.indices()
    known, wanted = known_rows * size + known_columns, rows * size + columns
    if not len(known):
        return counts.values().new_zeros(len(wanted))
    at = torch.searchsorted(known, wanted).clamp_max(len(known) - 1)
    return torch.where(known[at] == wanted, counts.values()[at], 0)


def matching_pairs(labels: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """Return places in `labels` and in `given` that hold the same label, all such combinations."""
    ordered, order = labels.sort()
    first = torch.searchsorted(ordered, given)
    repeats = torch.searchsorted(ordered, given, right=True) - first
    pair = torch.arange(len(given), device=given.device).repeat_interleave(repeats)
    start = repeats.cumsum(0) - repeats
    row = first[pair] + torch.arange(len(pair), device=given.device) - start[pair]
    return order[row], pair
