"""How often labels are a class that the evidence rules out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.noise.agreement import RATIOS
from tamis.selectors.plausible.running import State

OVERCONFIDENCE = 1.7 * torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]).mul(0.25).exp()
"""Temperatures of the evidence for a class that votes rule out; evidence counts what votes and
predictions have in common twice."""
SPREADS = torch.linspace(0.05, 1, 20, dtype=torch.float64)
LOG_PRIOR = (
    (-(OVERCONFIDENCE / 1.7).log().square().double() / (2 * 0.3**2)).log_softmax(dim=0)[:, None]
    + torch.where(SPREADS == 1, 0.5 + 0.5 / 20, 0.5 / 20).log()
)


@dataclass(kw_only=True)
class RuledOut:
    half_life: float = 10_000.0
    known_after: float = 2.0
    turnover: float = 0.25

    def __post_init__(self) -> None:
        self._sums = torch.zeros(3 + len(OVERCONFIDENCE))  # rows, hits, squares, errors
        self._classes = 0

    def update(
        self, evidence: Tensor, votes: Tensor, labels: Tensor, uses: Tensor, new: Tensor, distinct: float
    ) -> None:
        self._classes = evidence.shape[1]
        weights = (labels >= 0).to(evidence) / (1 + uses / self.known_after).square()
        ruled_out = votes.argmin(dim=1)
        hits = weights @ (labels == ruled_out).to(weights)
        at = evidence.gather(1, ruled_out[:, None])
        errors = [weights @ ((at / t) - (evidence / t).logsumexp(1, keepdim=True)).exp()[:, 0] for t in OVERCONFIDENCE.tolist()]
        newest = torch.stack([weights.sum(), hits, weights @ weights, *errors])
        replaced = new.to(evidence).sum() / (self.turnover * distinct)
        fade = 0.5 ** (weights.sum() / self.half_life + replaced)
        fades = fade.repeat(len(newest))
        fades[2] = fade.square()
        self._sums = self._sums.to(newest) * fades + newest

    def log_likelihood(self, distinct: float) -> Tensor:
        """Return the log likelihood of each of `RATIOS`, where rows are at most so many."""
        rows, hits, squares, *errors = self._sums.double().cpu()
        if self._classes < 3 or not rows > 0:
            return torch.zeros_like(RATIOS)
        error = torch.stack(errors) / rows
        ratios, error = RATIOS[:, None, None], error[:, None]
        share = ratios * error + (1 - ratios) * SPREADS * (1 - error) / (self._classes - 1)
        many = min(distinct, (rows**2 / squares).item())
        found = hits / rows
        each = many * (found * share.log() + (1 - found) * (1 - share).log())
        return (each + LOG_PRIOR).flatten(1).logsumexp(dim=1)

    def grow(self, classes: int) -> None:
        """Count by so many classes: a new one is the least likely of all, and says little."""
        if classes > self._classes:
            self._sums = self._sums * 0

    def state_dict(self) -> State:
        """Return the counts; nothing before the first slot."""
        if not self._classes:
            return {}
        return {"sums": self._sums.clone(), "classes": torch.tensor(self._classes)}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self.__post_init__()
        if state:
            self._sums, self._classes = state["sums"].clone(), int(state["classes"])
