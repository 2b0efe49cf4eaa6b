"""The clean ratio with a band: what the stream leaves open, and what an audit has settled."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.data import match_ids
from tamis.noise.agreement import RATIOS
from tamis.noise.tracker import Estimate
from tamis.selectors.plausible.agreements import Agreements
from tamis.selectors.plausible.running import State

ALLOWANCE = 0.03
"""What a band has on either side for the error of the readings themselves."""
DEVIATIONS = 1.645
"""Standard deviations from the middle of a normal distribution to the ends of a 90% band."""


class Readings(NamedTuple):
    """What is read off a stream about its clean ratio.

    `value` is the ratio in use, `low` and `high` are the ends of what the stream leaves open.
    """

    value: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(
        cls,
        value: Tensor,
        first: float,
        second: Tensor,
        agreements: Agreements,
        distinct: float = math.inf,
    ) -> Readings:
        """Return what lies between two readings, widened by what neither of them can know.

        It ends below the share of labels that agree with the evidence, as if that were always
        right, and further down by the doubt: wrong labels that lie together may agree with each
        other as often as they differ. It ends no higher than what rows gave when they were seen
        first, before they could be learned by heart. Upwards it is wider by the share of rows
        where the judges differ: there the label may be right, and the evidence wrong. Shares of few
        `distinct` rows have a standard error on top.
        """
        agreeing, doubt, judges = (
            part.to(value)
            for part in (agreements.agreeing(), agreements.doubt(), agreements.judges())
        )
        error = DEVIATIONS * (value * (1 - value) / distinct).sqrt() + ALLOWANCE
        low = agreeing.clamp_max(first) - doubt - error
        low = torch.minimum(low, agreements.clean_ratio_at_first().to(value) - error)
        high = second.clamp_min(first)
        high = high + (1 - high) * (1 - judges) + error
        return cls(value, low.clamp(0, 1), high.clamp(0, 1))

    def posterior(self, right: Tensor, wrong: Tensor) -> Tensor:
        """Return the probabilities of the ratios on the grid, after an audit of so many labels.

        Before it they are normal on either side of the value, with 90% between low and high.
        """
        ratios = RATIOS.to(self.value)
        below, above = self.value - self.low, self.high - self.value
        width = torch.where(ratios < self.value, below, above).clamp_min(ALLOWANCE) / DEVIATIONS
        prior = -((ratios - self.value) / width).square() / 2
        found = right.to(prior) * ratios.log() + wrong.to(prior) * (1 - ratios).log()
        return (prior + found).softmax(dim=0)

    def likeliest(self, right: Tensor, wrong: Tensor) -> Tensor:
        """Return the likeliest ratio after an audit: the value itself, where that counts nothing.

        The mean would move to the wider side of the band even then.
        """
        return RATIOS.to(self.value)[self.posterior(right, wrong).argmax()]

    def estimate(self, right: Tensor, wrong: Tensor) -> Estimate:
        """Return the value with its band; of the posterior, once labels have been audited."""
        if not bool(right + wrong > 0):
            return Estimate(self.value.item(), self.low.item(), self.high.item())
        shares = self.posterior(right, wrong).cpu().double()
        ends = torch.tensor([0.05, 0.95], dtype=torch.float64)
        places = torch.searchsorted(shares.cumsum(dim=0), ends).clamp_max(len(RATIOS) - 1)
        low, high = RATIOS[places].tolist()
        return Estimate(self.likeliest(right, wrong).item(), low, high)


class AuditCounts:
    """Labels that people found right or wrong among rows drawn at random.

    They count less as the rows that they were drawn from are replaced by others.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._ids = torch.empty(0, dtype=torch.long)
        self._right = torch.empty(0, dtype=torch.int8)
        self._weight = torch.ones(())

    def __len__(self) -> int:
        return len(self._ids)

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Add what was found; 1 is right, 0 wrong, and -1 takes back what was found of an id."""
        self._weight = self._weight if len(self) else torch.ones(())
        held, right = self._ids.to(ids.device), right.to(torch.int8)
        places, given = match_ids(held, ids)
        known = self._right.to(ids.device).clone()
        known[places] = right[given]
        more = ~torch.isin(ids, held)
        held, known = torch.cat([held, ids[more]]), torch.cat([known, right[more]])
        self._ids, self._right = held[known >= 0], known[known >= 0]

    def fade(self, replaced: Tensor) -> None:
        """Count half as much for each sixteenth of the pool that was replaced.

        Where the ratio falls, an audit of before would be believed over what is seen now.
        """
        if len(self):
            self._weight = self._weight.to(replaced) * 0.5 ** (16 * replaced)

    def counts(self) -> tuple[Tensor, Tensor]:
        """Return how many labels are right and wrong, faded."""
        weight = self._weight.to(self._ids.device)
        right = (self._right == 1).sum() * weight
        return right, len(self) * weight - right

    def state_dict(self) -> State:
        """Return what was found; nothing without an audit."""
        if not len(self):
            return {}
        return {
            "ids": self._ids.clone(),
            "right": self._right.clone(),
            "weight": self._weight.clone(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._reset()
        if state:
            self._ids, self._right = state["ids"].clone(), state["right"].clone()
            self._weight = state["weight"].clone()
