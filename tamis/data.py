"""The records that cross every border of the package."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Labelled rows, one entry per row in every field.

    `clean` says which labels are right. Only a simulation knows it, and only the oracle and the
    monitor may read it. `groups` numbers the groups that picks should be fair to, if any.

    >>> rows = Samples.of(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> rows[torch.tensor([2, 0])].ids.tolist()
    [2, 0]
    """

    inputs: Tensor
    labels: Tensor
    ids: Tensor
    uses: Tensor
    clean: Tensor | None = None
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise ValueError(f"Samples need one entry per row in every field, got {counts}.")

    @classmethod
    def of(
        cls,
        inputs: Tensor,
        labels: Tensor,
        first_id: int = 0,
        clean: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Samples:
        """Rows that nobody has used yet, numbered from `first_id`."""
        ids = torch.arange(first_id, first_id + len(labels), device=labels.device)
        return cls(inputs, labels, ids, torch.zeros_like(ids), clean, groups)

    def columns(self) -> dict[str, Tensor]:
        """Return the fields that are there, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in named.items() if column is not None}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> Samples:
        return Samples(**{name: column[rows] for name, column in self.columns().items()})

    def to(self, device: torch.device) -> Samples:
        """Return the same rows on another device."""
        return Samples(**{name: column.to(device) for name, column in self.columns().items()})


@dataclass(frozen=True)
class Search:
    """What a search through the pool did, for the monitor and the regret.

    `visits` counts the times each row of the pool was stepped on, `stayed` is the share of moves
    that ended where they began, `regret` the mean over chains of the local Lagrangian regret,
    `price` the highest price (the paper's mu) that any chain came to, `taxes` the multiplier of
    each group where shares are constrained.
    """

    visits: Tensor
    stayed: float
    regret: float
    price: float
    taxes: Tensor | None = None


@dataclass(frozen=True)
class Picks:
    """Rows of a pool to train on, with optional weights and soft targets, one entry per pick."""

    rows: Tensor
    weights: Tensor | None = None
    targets: Tensor | None = None
    search: Search | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Slot:
    """What happened in one time slot, the paper's t.

    `seen`, `held` and `skipped` count rows: taken in since the start, in the buffer now, refused
    since the start. `agreement` is the share of arriving labels that the model predicted before
    it learned from them. `purity` and `recall` are None where nobody knows which labels are right.
    """

    number: int
    warm_up: bool
    seen: int
    held: int
    skipped: int
    ids: Tensor
    loss: float | None
    agreement: float | None
    purity: float | None
    recall: float | None
    coverage: float
    class_picks: Tensor
    class_held: Tensor
    stayed: float | None
    price: float | None
    select_seconds: float
    seconds: float
