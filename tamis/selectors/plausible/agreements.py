"""How often labels, votes and predictions name the same class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states

LOWEST, HIGHEST = 0.005, 0.995
"""Bounds of a clean ratio."""


@dataclass(kw_only=True)
class Agreements:
    """Running shares of rows where labels, votes and predictions name the same class.

    Votes and predictions are two judges of a row, and neither has seen its label in this slot. If
    their mistakes are independent they agree about as often as the square of their accuracy, so
    that the root of that share is the accuracy of the evidence; poor judges share their mistakes,
    and are right no more often than they agree. With that accuracy, the share of labels that agree
    with the evidence gives a clean ratio that needs no calibrated confidence: wrong labels that lie
    together, and that the model has half learned, count against the labels and not against the
    model.

    Parameters
    ----------
    pace: share of the newest slot in running means; at first, all slots have the same share.
    prior_share: share of rows of average agreement that each class begins with.
    shared_mistakes: share of rows where the judges agree up to which all their mistakes are shared,
        and from which on none is.
    """

    pace: float = 0.02
    prior_share: float = 0.005
    shared_mistakes: tuple[float, float] = (0.5, 0.8)

    def __post_init__(self) -> None:
        self._judges, self._rows, self._agreeing, self._misses, self._confident_misses = (
            RunningMean(self.pace) for _ in range(5)
        )
        self._slots = 0

    def update(
        self, candidates: Candidates, votes: Tensor, probabilities: Tensor, evidence: Tensor
    ) -> None:
        """Count the rows of a slot; votes and probabilities are those that the evidence is of."""
        weights, labels = candidates.weights(), candidates.labels
        self._slots += 1
        for mean in self._means().values():
            mean.pace = max(self.pace, 1 / self._slots)
        same = votes.argmax(dim=1) == probabilities.argmax(dim=1)
        self._judges.update(weights @ same.to(weights))
        likeliest = evidence.argmax(dim=1)
        none = weights.new_zeros(candidates.classes)
        agreeing = weights * (likeliest == labels)
        self._rows.update(none.index_put((likeliest,), weights, accumulate=True))
        self._agreeing.update(none.index_put((likeliest,), agreeing, accumulate=True))
        self._count_misses(candidates, weights)

    def judges(self) -> Tensor:
        """Return the share of rows whose votes and predictions name the same class."""
        return torch.zeros(()) if self._judges.value is None else self._judges.value

    def accuracy(self) -> Tensor:
        """Return how often the evidence is right, by the share of rows where the judges agree."""
        share, (low, high) = self.judges(), self.shared_mistakes
        return share ** (0.5 + 0.5 * ((high - share) / (high - low)).clamp(0, 1))

    def agreeing(self) -> Tensor:
        """Return the share of labels that are the likeliest class by the evidence."""
        return torch.zeros(()) if self._agreeing.value is None else self._agreeing.value.sum()

    def clean_ratio(self) -> Tensor:
        """Return the clean ratio by the share of labels that agree, and the judges' accuracy."""
        if self._agreeing.value is None:
            return torch.full((), 0.5)
        classes = len(self._agreeing.value)
        right = self.accuracy().clamp(min(1.5 / classes, HIGHEST), HIGHEST)
        coincidence = (1 - right) / (classes - 1)
        ratio = (self.agreeing() - coincidence) / (right - coincidence)
        # Labels are no worse than a guess: before anything is learned, nothing else agrees.
        return ratio.clamp(1 / classes, HIGHEST)

    def doubt(self) -> Tensor:
        """Return the share of labels that differ from the evidence where it is not certain either.

        Labels that differ there are hard, or wrong together; and then as many may agree.
        """
        return (1 - self.agreeing()).clamp_min(0) * (1 - self.evenness())

    def by_class(self) -> Tensor | None:
        """Return the agreement of each class over that of all; None before the first slot.

        Classes count apart as far as the judges agree beyond one half: before, a class that is
        hard would be taken for one whose labels are wrong.
        """
        rows, agreeing = self._rows.value, self._agreeing.value
        if rows is None or agreeing is None:
            return None
        mean = self.agreeing().clamp_min(1e-3)
        each = (agreeing + self.prior_share * mean) / (rows + self.prior_share)
        return (each / mean) ** (2 * self.judges() - 1).clamp(0, 1)

    def evenness(self) -> Tensor | float:
        """Return how many labels the more confident half of predictions misses, over all of them.

        1 where wrong labels are scattered; low where labels and predictions differ in regions that
        are hard, or whose labels are wrong together.
        """
        misses, confident = self._misses.value, self._confident_misses.value
        if misses is None or confident is None:
            return 1.0
        return (confident / misses.clamp_min(1e-3)).clamp(0, 1)

    def grow(self, classes: int) -> None:
        """Add classes that no row has been taken for, up to so many."""
        for mean in (self._rows, self._agreeing):
            mean.grow(classes)

    def state_dict(self) -> State:
        """Return the running shares; nothing before the first slot."""
        if not self._slots:
            return {}
        return join_states(self._means()) | {"slots": torch.tensor(self._slots)}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._means(), state)
        self._slots = int(state["slots"]) if state else 0

    def _count_misses(self, candidates: Candidates, weights: Tensor) -> None:
        confidence, predicted = candidates.probabilities.max(dim=1)
        missed = weights * (predicted != candidates.labels)
        median = confidence.masked_fill(~candidates.usable, torch.nan).nanmedian()
        confident = confidence >= median
        share = (weights * confident).sum().clamp_min(1e-9)
        self._misses.update(missed.sum())
        self._confident_misses.update((missed * confident).sum() / share)

    def _means(self) -> dict[str, RunningMean]:
        return {
            "judges": self._judges,
            "rows": self._rows,
            "agreeing": self._agreeing,
            "misses": self._misses,
            "confident_misses": self._confident_misses,
        }
