"""How often labels, votes and predictions name the same class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states

LOWEST, HIGHEST = 0.005, 0.995
"""Bounds of a clean ratio."""


class Shares(NamedTuple):
    """Shares of a set of rows.

    `judges`: votes and predictions name the same class. `agreeing`: the label is the likeliest
    class by the evidence. `misses`: it is not the class predicted; `confident_misses`: the same
    among the more confident half of the predictions.
    """

    judges: Tensor
    agreeing: Tensor
    misses: Tensor
    confident_misses: Tensor


class Tally:
    """Running sums over a set of rows, each as a share of all rows of a slot."""

    def __init__(self, pace: float) -> None:
        names = ("rows", "confident", *Shares._fields)
        self.sums = {name: RunningMean(pace) for name in names}

    def update(self, weights: Tensor, confident: Tensor, found: dict[str, Tensor]) -> None:
        """Add the rows of a slot, by weights that are 0 for those that do not belong to the set."""
        masks = {"confident": confident, **found, "confident_misses": confident & found["misses"]}
        self.sums["rows"].update(weights.sum())
        for name, mask in masks.items():
            self.sums[name].update((weights * mask).sum())

    def sum(self, name: str) -> Tensor:
        """Return a running sum; 0 before the first slot."""
        value = self.sums[name].value
        return torch.zeros(()) if value is None else value

    def shares(self) -> Shares:
        """Return the shares."""
        rows, confident = (self.sum(name).clamp_min(1e-9) for name in ("rows", "confident"))
        parts = [self.sum(name) / rows for name in Shares._fields[:-1]]
        return Shares(*parts, self.sum("confident_misses") / confident)


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

    Labels that were learned by heart agree with everything. Where those of rows held back
    (`Reserve`) agree less often than others, beyond chance, these rows alone count.

    Parameters
    ----------
    pace: share of the newest slot in running means; at first, all slots have the same share.
    prior_share: share of rows of average agreement that each class begins with.
    shared_mistakes: share of rows where the judges agree up to which all their mistakes are shared,
        and from which on none is.
    poor_judges: share of rows where the judges agree up to which easy rows are preferred, and from
        which on hard ones are.
    chance: standard errors by which labels held back may agree less often by chance; from the
        second number on labels have been learned by heart.
    """

    pace: float = 0.02
    prior_share: float = 0.005
    shared_mistakes: tuple[float, float] = (0.5, 0.8)
    poor_judges: tuple[float, float] = (0.2, 0.8)
    chance: tuple[float, float] = (1.5, 3.0)

    def __post_init__(self) -> None:
        self._all, self._held_back = Tally(self.pace), Tally(self.pace)
        self._rows, self._agreeing = RunningMean(self.pace), RunningMean(self.pace)
        self._memorising = torch.zeros(())
        self._slots = 0

    def update(
        self,
        candidates: Candidates,
        votes: Tensor,
        probabilities: Tensor,
        evidence: Tensor,
        held_back: Tensor,
        distinct: float,
    ) -> None:
        """Count the rows of a slot; votes and probabilities are those that the evidence is of.

        `held_back` marks those of the reserve, in a pool of so many `distinct` rows.
        """
        weights, labels = candidates.weights(), candidates.labels
        self._slots += 1
        for mean in self._means().values():
            mean.pace = max(self.pace, 1 / self._slots)
        likeliest = evidence.argmax(dim=1)
        confidence, predicted = candidates.probabilities.max(dim=1)
        median = confidence.masked_fill(~candidates.usable, torch.nan).nanmedian()
        found = {
            "judges": votes.argmax(dim=1) == probabilities.argmax(dim=1),
            "agreeing": likeliest == labels,
            "misses": predicted != labels,
        }
        self._all.update(weights, confidence >= median, found)
        self._held_back.update(weights * held_back, confidence >= median, found)
        none = weights.new_zeros(candidates.classes)
        agreeing = weights * found["agreeing"]
        self._rows.update(none.index_put((likeliest,), weights, accumulate=True))
        self._agreeing.update(none.index_put((likeliest,), agreeing, accumulate=True))
        self._memorising = self._compare(candidates.usable.sum(), distinct)

    def memorising(self) -> Tensor:
        """Return how far labels have been learned by heart: 0 is not beyond chance, 1 clearly."""
        return self._memorising

    def learned_by_heart(self) -> Tensor:
        """Return by how much more labels agree with the evidence than those held back do."""
        gap = self._all.shares().agreeing - self._held_back.shares().agreeing
        return gap.clamp_min(0) * self._memorising

    def judges(self) -> Tensor:
        """Return the share of rows whose votes and predictions name the same class."""
        return self._shares().judges

    def accuracy(self) -> Tensor:
        """Return how often the evidence is right, by the share of rows where the judges agree."""
        share, (low, high) = self.judges(), self.shared_mistakes
        return share ** (0.5 + 0.5 * ((high - share) / (high - low)).clamp(0, 1))

    def agreeing(self) -> Tensor:
        """Return the share of labels that are the likeliest class by the evidence."""
        return self._shares().agreeing

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
        mean = agreeing.sum().clamp_min(1e-3)
        each = (agreeing + self.prior_share * mean) / (rows + self.prior_share)
        return (each / mean) ** (2 * self.judges() - 1).clamp(0, 1)

    def evenness(self) -> Tensor:
        """Return how many labels the more confident half of predictions misses, over all of them.

        1 where wrong labels are scattered; low where labels and predictions differ in regions that
        are hard, or whose labels are wrong together.
        """
        shares = self._shares()
        even = (shares.confident_misses / shares.misses.clamp_min(1e-3)).clamp(0, 1)
        return even if self._slots else torch.ones(())

    def difficulty(self) -> Tensor:
        """Return how far hard rows are to be preferred, from 1 to -1: then easy ones are.

        What is hard is often wrong where noise is not even, and where the judges hardly agree.
        """
        low, high = self.poor_judges
        return self.evenness() * ((2 * self.judges() - low - high) / (high - low)).clamp(-1, 1)

    def grow(self, classes: int) -> None:
        """Add classes that no row has been taken for, up to so many."""
        for mean in (self._rows, self._agreeing):
            mean.grow(classes)

    def state_dict(self) -> State:
        """Return the running shares; nothing before the first slot."""
        if not self._slots:
            return {}
        return join_states(self._means()) | {
            "memorising": self._memorising.clone(),
            "slots": torch.tensor(self._slots),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._means(), state)
        self._memorising = state["memorising"].clone() if state else torch.zeros(())
        self._slots = int(state["slots"]) if state else 0

    def _shares(self) -> Shares:
        """Return the shares of all rows; of those held back, where labels are known by heart."""
        pairs = zip(self._all.shares(), self._held_back.shares(), strict=True)
        return Shares(*(torch.lerp(every, held, self._memorising) for every, held in pairs))

    def _compare(self, rows: Tensor, distinct: float) -> Tensor:
        """Return how clearly labels held back agree less often than all, in slots of `rows`."""
        share = self._held_back.sum("rows")
        looks = share * rows * min(self._slots, 1 / self.pace)
        # A row that is looked at again and again says no more about labels than once.
        independent = 1 / (1 / looks.clamp_min(1e-9) + 1 / (share * distinct).clamp_min(1e-9))
        every, held = self._all.shares().agreeing, self._held_back.shares().agreeing
        mean = ((every + held) / 2).clamp(0.05, 0.95)
        errors = (every - held) * (independent / (mean * (1 - mean))).sqrt()
        low, high = self.chance
        return ((errors - low) / (high - low)).clamp(0, 1)

    def _means(self) -> dict[str, RunningMean]:
        tallies = {"all": self._all, "held_back": self._held_back}
        return {
            "rows": self._rows,
            "agreeing": self._agreeing,
            **{f"{set_}.{name}": m for set_, t in tallies.items() for name, m in t.sums.items()},
        }
