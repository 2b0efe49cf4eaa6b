"""How often labels, votes and predictions name the same class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.model_view.passes import argmax, largest
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.input_votes import EVERY
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states

LOWEST, HIGHEST = 0.005, 0.995
"""Bounds of a clean ratio."""
LEAST_NEW = 64
"""Rows seen for the first time from which on they are a reading of the clean ratio."""


def by_accuracy(accuracy: Tensor, agreeing: Tensor, classes: int) -> Tensor:
    """Return the clean ratio where evidence of this accuracy agrees with this share of labels."""
    right = accuracy.clamp(min(1.5 / classes, HIGHEST), HIGHEST)
    coincidence = (1 - right) / (classes - 1)
    return (agreeing - coincidence) / (right - coincidence)


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

    Judges of the same features may agree and be wrong all the same, as where data are hard. So
    votes by inputs, which no label has taught what to look at, are counted as well: the share of
    labels that they agree with, over that of the evidence, is a clean ratio in which their own
    mistakes cancel out. The larger of the two counts. Where they agree with the evidence on few
    rows, nothing confirms it.

    A label that was trained on often is agreed with, right or wrong. So rows seen for the first
    time are counted apart: what they showed stands until a quarter of the pool has been replaced.

    Parameters
    ----------
    pace: share of the newest slot in running means; at first, all slots have the same share.
    turnover: share of the pool to be replaced until what was seen at first has half its weight.
    prior_share: share of rows of average agreement that each class begins with.
    shared_mistakes: share of rows where the judges agree up to which all their mistakes are shared,
        and from which on none is.
    confirmed_by: share of rows where votes by inputs name the class of the evidence up to which
        nothing confirms it, and from which on it is confirmed.
    """

    pace: float = 0.02
    turnover: float = 0.25
    prior_share: float = 0.005
    shared_mistakes: tuple[float, float] = (0.5, 0.8)
    confirmed_by: tuple[float, float] = (0.3, 0.5)

    def __post_init__(self) -> None:
        self._judges, self._rows, self._agreeing, self._misses, self._confident_misses = (
            RunningMean(self.pace) for _ in range(5)
        )
        self._confirmed, self._backed = RunningMean(self.pace), RunningMean(self.pace)
        self._at_first = torch.zeros(3)  # rows, shares of judges and of labels that agree
        self._slots = 0

    def update(
        self,
        candidates: Candidates,
        votes: Tensor,
        probabilities: Tensor,
        evidence: Tensor,
        input_votes: Tensor | None = None,
        new: Tensor | None = None,
        distinct: float = math.inf,
    ) -> None:
        """Count the rows of a slot; votes and probabilities are those that the evidence is of.

        Without votes by inputs, the judges alone count. `new` marks rows seen for the first
        time, in a pool of so many `distinct` rows.
        """
        weights, labels = candidates.weights(), candidates.labels
        self._slots += 1
        for mean in self._means().values():
            mean.pace = max(self.pace, 1 / self._slots)
        likeliest = argmax(evidence)
        right = likeliest == labels
        same = argmax(votes) == argmax(probabilities)
        self._judges.update(weights @ same.to(weights))
        if new is not None:
            self._count_new(new & candidates.usable, same, right, distinct)
        none = weights.new_zeros(candidates.classes)
        agreeing = weights * right
        self._rows.update(none.index_put((likeliest,), weights, accumulate=True))
        self._agreeing.update(none.index_put((likeliest,), agreeing, accumulate=True))
        self._count_misses(candidates, weights)
        if input_votes is not None:
            # They are cast in one slot of several, and count for as many.
            self._confirmed.pace = self._backed.pace = min(1.0, EVERY * self._judges.pace)
            named = argmax(input_votes)
            self._confirmed.update(weights @ (named == likeliest).to(weights))
            self._backed.update(weights @ (named == labels).to(weights))

    def judges(self) -> Tensor:
        """Return the share of rows whose votes and predictions name the same class."""
        return torch.zeros(()) if self._judges.value is None else self._judges.value

    def accuracy(self, share: Tensor | None = None) -> Tensor:
        """Return how often the evidence is right, by the share of rows where the judges agree."""
        share, (low, high) = self.judges() if share is None else share, self.shared_mistakes
        return share ** (0.5 + 0.5 * ((high - share) / (high - low)).clamp(0, 1))

    def agreeing(self) -> Tensor:
        """Return the share of labels that are the likeliest class by the evidence."""
        return torch.zeros(()) if self._agreeing.value is None else self._agreeing.value.sum()

    def standing(self) -> Tensor:
        """Return how far the judges agree beyond one half of the rows, from 0 to 1."""
        return (2 * self.judges() - 1).clamp(0, 1)

    def confirmation(self) -> Tensor | float:
        """Return how far votes by inputs confirm the evidence, from 0 to 1."""
        share, (low, high) = self._confirmed.value, self.confirmed_by
        return 1.0 if share is None else ((share - low) / (high - low)).clamp(0, 1)

    def weighting(self) -> Tensor:
        """Return how far picks may be weighted, from 0 to 1: not where evidence is unconfirmed.

        There they are as far as the judges agree, at the least. A confirmation counts as often as
        the judges agree, too: before features are learned, they are near inputs, and so are votes.
        """
        standing = self.standing()
        return standing + (1 - standing) * self.confirmation() * self.judges()

    def clean_ratio(self) -> Tensor:
        """Return the clean ratio by the judges, or by the votes by inputs where that is larger."""
        if self._agreeing.value is None:
            return torch.full((), 0.5)
        classes = len(self._agreeing.value)
        ratio = by_accuracy(self.accuracy(), self.agreeing(), classes)
        if self._confirmed.value is not None and self._backed.value is not None:
            ratio = ratio.clamp_min(self._backed.value / self._confirmed.value.clamp_min(1e-3))
        # Labels are no worse than a guess: before anything is learned, nothing else agrees.
        return ratio.clamp(1 / classes, HIGHEST)

    def clean_ratio_at_first(self) -> Tensor:
        """Return the clean ratio by rows when they were seen first; 1 where those are too few."""
        if self._agreeing.value is None:
            return torch.ones(())
        classes = len(self._agreeing.value)
        rows, judges, agreeing = self._at_first
        ratio = by_accuracy(self.accuracy(judges), agreeing, classes).clamp(1 / classes, HIGHEST)
        return torch.where(rows < LEAST_NEW, 1.0, ratio)

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
        return (each / mean) ** self.standing()

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
        return join_states(self._means()) | {
            "at_first": self._at_first.clone(),
            "slots": torch.tensor(self._slots),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._means(), state)
        self._slots = int(state["slots"]) if state else 0
        self._at_first = state.get("at_first", torch.zeros(3)).clone()

    def _count_new(self, new: Tensor, same: Tensor, agreeing: Tensor, distinct: float) -> None:
        if new.device.type == "cpu" and not new.any():  # elsewhere it would have to be waited for
            self._at_first = self._at_first.to(self.judges())
            return
        found = torch.stack([new, new & same, new & agreeing]).sum(dim=1)
        at_first = self._at_first.to(self.judges())
        count, before = found[0].to(at_first), at_first[0]
        kept = (1 - count / (2 * self.turnover * distinct)).clamp(0, 1)
        rows = before * kept + count
        shares = found[1:].to(at_first) / count.clamp_min(1)
        step = count / rows.clamp_min(1)
        self._at_first = torch.cat([rows[None], at_first[1:].lerp(shares, step)])

    def _count_misses(self, candidates: Candidates, weights: Tensor) -> None:
        confidence, predicted = largest(candidates.probabilities)
        missed = weights * (predicted != candidates.labels)
        median = confidence.masked_fill(~candidates.usable, torch.nan).nanmedian()
        confident = confidence >= median
        confident = confident.to(weights)
        share = (weights @ confident).clamp_min(1e-9)
        self._misses.update(missed.sum())
        self._confident_misses.update((missed @ confident) / share)

    def _means(self) -> dict[str, RunningMean]:
        return {
            "judges": self._judges,
            "rows": self._rows,
            "agreeing": self._agreeing,
            "misses": self._misses,
            "confident_misses": self._confident_misses,
            "confirmed": self._confirmed,
            "backed": self._backed,
        }
