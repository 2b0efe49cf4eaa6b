"""Cross-validation of the trimming of Shen and Sanghavi, ICML 2019, algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.model_view import ModelView

TENTHS = tuple(tenth / 10 for tenth in range(1, 11))


@dataclass(frozen=True)
class CrossValidation:
    """Trims by each candidate share, and takes the one that predicts held-out labels best.

    For each fold and candidate a linear model is trained on the share of the other folds' rows
    with the smallest losses. The held-out labels are as noisy as the others; noise at random
    lowers the agreement of all candidates equally. Of equal candidates the largest is taken.

    Training is short on purpose: a model that has memorised wrong labels has no loss left to trim
    them by.

    Parameters
    ----------
    candidates: shares to trim by, in (0, 1]
    folds: parts of the rows, each held out once
    space: what the linear models are fed, the features of the model or the inputs
    rounds: rounds of trimming; the first keeps all rows
    steps: full-batch steps of a round
    rate: learning rate
    weight_decay: weight decay of the linear models
    """

    candidates: tuple[float, ...] = TENTHS
    folds: int = 3
    space: Literal["inputs", "features"] = "features"
    rounds: int = 3
    steps: int = 20
    rate: float = 0.01
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        if not self.candidates or not all(0 < share <= 1 for share in self.candidates):
            raise ValueError(f"Candidates are shares in (0, 1], got {self.candidates}.")
        for name, least in (("folds", 2), ("rounds", 1), ("steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")

    def estimate(self, samples: Samples, view: ModelView, generator: Generator) -> float:
        """Return the estimated clean ratio, one of the candidates."""
        inputs = samples.inputs
        seen = view.features(inputs) if self.space == "features" else inputs.flatten(1)
        known = seen.isfinite().all(dim=1) & (samples.labels >= 0)
        if known.sum() < self.folds:
            raise ValueError(f"{self.folds} folds need as many good rows, got {known.sum()}.")
        seen = standardise(seen[known].float())
        names, labels = samples.labels[known].unique(return_inverse=True)
        shares = sorted(self.candidates, reverse=True)
        fold = torch.randperm(len(labels), generator=generator).to(labels.device) % self.folds
        right = torch.zeros(len(shares), device=labels.device)
        for held_out in range(self.folds):
            train, test = fold != held_out, fold == held_out
            weights = self._fit(seen[train], labels[train], len(names), shares)
            right += ((seen[test] @ weights).argmax(dim=2) == labels[test]).sum(dim=1)
        return shares[int(right.argmax())]

    @torch.enable_grad()
    def _fit(self, seen: Tensor, labels: Tensor, classes: int, shares: list[float]) -> Tensor:
        """Return the weights of a linear model for each share, (shares, width, classes)."""
        weights = seen.new_zeros(len(shares), seen.shape[1], classes, requires_grad=True)
        kept = seen.new_ones(len(shares), len(seen))
        for _ in range(self.rounds):
            optimizer = torch.optim.Adam([weights], self.rate, weight_decay=self.weight_decay)
            for _ in range(self.steps):
                losses = losses_of(seen, labels, weights)
                optimizer.zero_grad()
                ((losses * kept).sum(dim=1) / kept.sum(dim=1)).sum().backward()
                optimizer.step()
            kept = trim(losses_of(seen, labels, weights.detach()), shares)
        return weights.detach()


def standardise(seen: Tensor) -> Tensor:
    """Return columns of mean 0 and deviation 1, and one of ones for the bias."""
    centred = seen - seen.mean(dim=0)
    deviation = centred.square().mean(dim=0).sqrt()
    scaled = centred / torch.where(deviation > 0, deviation, 1)
    return torch.cat([scaled, torch.ones_like(seen[:, :1])], dim=1)


def losses_of(seen: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the cross entropy of each row under each model, (models, rows)."""
    logits = seen @ weights
    repeated = labels.repeat(len(weights))
    return cross_entropy(logits.flatten(0, 1), repeated).reshape(len(weights), len(labels))


def trim(losses: Tensor, shares: list[float]) -> Tensor:
    """Return 1 for the floor(share * n) rows of smallest loss, at least one, and 0 for others."""
    kept = torch.zeros_like(losses)
    for marks, row_losses, share in zip(kept, losses, shares, strict=True):
        count = max(1, math.floor(share * len(row_losses) + 1e-9))  # 0.29 * 100 is 28.999...
        marks[row_losses.topk(count, largest=False).indices] = 1
    return kept
