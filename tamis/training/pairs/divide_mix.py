"""DivideMix: Li, Socher and Hoi, ICLR 2020, algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tamis.buffers import Buffer
from tamis.data import Picks, Samples, to_device
from tamis.model_view.passes import logits_of
from tamis.selectors.mixture import low_probabilities
from tamis.selectors.sampling import all_rows
from tamis.training.augment import mix
from tamis.training.learner import Learner
from tamis.training.pairs.two_models import Settings, TwoModels
from tamis.training.step import descend, save_buffers, single_rows

SHARPER = 2
"""Power of sharpened probabilities: 1 / T in the paper, at T = 0.5."""
MIXED = 4.0
"""Alpha of the share by which rows are mixed."""


@dataclass(frozen=True)
class Divided(Picks):
    """Picks of which so many come first whose labels are trusted; the others' are guessed."""

    trusted: int = 0


class DivideMix(TwoModels):
    """Learn from labels that the other model trusts, and guess the others with it.

    In every slot a mixture of two Gaussians is fitted to the losses of the batch under each model.
    A label is trusted by a model whose probability of the lower one is above `threshold` (tau).
    The other model learns from at most k trusted rows, whose labels are moved towards its own
    prediction, and from at most as many others, whose labels both models guess. All are mixed with
    each other. Guessed rows have the squared error of probabilities, weighed by `strength`
    (lambda_u), which rises from 0 over `ramp` slots after the warm-up; in the warm-up all labels
    are trusted.

    The batch is 4 k rows unless given. `augment` changes inputs before they are mixed, and must
    keep rows apart, as `ShiftAndFlip` does. See `TwoModels` for what a slot reports and for the
    other settings.
    """

    def __init__(
        self,
        models: tuple[nn.Module, nn.Module],
        optimizers: tuple[Optimizer, Optimizer],
        buffer: Buffer,
        k: int = 32,
        *,
        threshold: float = 0.5,
        strength: float = 25.0,
        ramp: int = 1000,
        batch: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if not 0 <= threshold < 1 or strength < 0 or ramp < 1:
            raise ValueError(
                "DivideMix needs threshold in [0, 1), strength >= 0 and ramp >= 1, got"
                f" {threshold}, {strength}, {ramp}."
            )
        self.threshold, self.strength, self.ramp = threshold, strength, ramp
        batch = 4 * k if batch is None else batch
        super().__init__(models, optimizers, buffer, k, batch, **settings)

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"threshold": self.threshold, "ramp": self.ramp}

    def _choose(self, batch: Samples) -> tuple[Picks, Picks]:
        classes = self.validator.classes or 0
        if self.slots < self.warm_up:
            rows = all_rows(batch)[: self.k]
            targets = functional.one_hot(batch.labels[rows], classes).float()
            picks = Divided(rows, targets=targets, trusted=len(rows))
            return picks, picks
        logits = [one.now.logits(batch.inputs) for one in self.both]
        first, second = (seen.softmax(dim=1) for seen in logits)
        by_first, by_second = (
            self._trust(self.now.criterion(seen, batch.labels)) for seen in logits
        )
        return (
            self._divide(batch.labels, by_second, first, (first + second) / 2),
            self._divide(batch.labels, by_first, second, (first + second) / 2),
        )

    def _trust(self, losses: Tensor) -> Tensor:
        """Return the probability of the lower Gaussian; 1 where there is nothing to split."""
        seed = int(torch.randint(2**31 - 1, (1,), generator=self.generator))
        finite = losses.isfinite()
        known = losses[finite]
        if len(known) < 2 or known.max() == known.min():
            return torch.ones_like(losses)
        trust = torch.zeros_like(losses)
        trust[finite] = low_probabilities(known, seed).to(losses.dtype)
        return trust

    def _divide(self, labels: Tensor, trust: Tensor, own: Tensor, mean: Tensor) -> Divided:
        """Return trusted rows with refined labels, then at most as many with guessed ones."""
        trusted = (trust > self.threshold).nonzero()[:, 0][: self.k]  # in random order
        guessed = (trust <= self.threshold).nonzero()[:, 0][: len(trusted) or self.k]
        given = functional.one_hot(labels[trusted], own.shape[1])
        share = trust[trusted, None]
        refined = sharpen(share * given + (1 - share) * own[trusted])
        targets = torch.cat([refined, sharpen(mean[guessed])])
        return Divided(torch.cat([trusted, guessed]), targets=targets, trusted=len(trusted))

    def _train(self, batch: Samples, picks: tuple[Picks, Picks]) -> Tensor:
        """Update each model on its own rows, mixed; return the mean of the two losses."""
        losses = [
            self._descend(one, batch.inputs[own.rows], own)
            for one, own in zip(self.both, picks, strict=True)
            if isinstance(own, Divided)
        ]
        return torch.stack(losses).mean()

    def _descend(self, one: Learner, inputs: Tensor, own: Divided) -> Tensor:
        targets, saved = own.targets, save_buffers(one.model)
        assert targets is not None  # noqa: S101
        if self.augment:
            classes = self.validator.classes or 0
            inputs, targets = self.augment(inputs, targets, classes, self.generator)
        if self.slots >= self.warm_up:
            inputs, targets = self._mixed(inputs, targets)
        with single_rows(one.model.train(), len(inputs)):
            logits = logits_of(one.model(inputs), one.model)
        loss = self._loss(logits, targets, own.trusted)
        return descend(loss, one.optimizer, saved=saved)

    def _mixed(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows mixed with others of both kinds, each with more of itself."""
        seed = int(torch.randint(2**63 - 1, (), generator=self.generator))
        share = float(np.random.default_rng(seed).beta(MIXED, MIXED))
        others = torch.randperm(len(inputs), generator=self.generator)
        others, share = to_device(others, inputs.device), max(share, 1 - share)
        return mix(inputs, others, share), mix(targets, others, share)

    def _loss(self, logits: Tensor, targets: Tensor, trusted: int) -> Tensor:
        """Return the loss of trusted rows, the weighed error of the others, and the penalty."""
        predicted = logits.softmax(dim=1)
        loss = predicted.sum() * 0
        if trusted:
            loss = loss + self.now.criterion(logits[:trusted], targets[:trusted]).mean()
        if self.slots < self.warm_up:
            return loss
        if trusted < len(logits):
            weight = self.strength * min(1.0, (self.slots - self.warm_up) / self.ramp)
            error = (predicted[trusted:] - targets[trusted:]).square().mean()
            loss = loss + weight * error
        even = 1 / logits.shape[1]
        return loss + (even * (even / predicted.mean(dim=0)).log()).sum()


def sharpen(shares: Tensor) -> Tensor:
    """Return shares to the power 1 / T, summing to 1 again."""
    powers = shares**SHARPER
    return powers / powers.sum(dim=1, keepdim=True)
