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


def rise(value: Tensor, ends: tuple[float, float]) -> Tensor:
    """Return 0 up to the first end, 1 from the second on, and a straight line in between."""
    low, high = ends
    return ((value - low) / (high - low)).clamp(0, 1)


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

    def update(
        self, weights: Tensor, among: Tensor, confidence: Tensor, found: dict[str, Tensor]
    ) -> None:
        """Add the rows of a slot that are `among` the set, by their weights."""
        median = confidence.masked_fill(~among, torch.nan).nanmedian()
        confident = confidence >= median
        masks = {"rows": among, "confident": confident, **found}
        masks["confident_misses"] = confident & found["misses"]
        for name, mask in masks.items():
            self.sums[name].update((weights * (mask & among)).sum())

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
    unjudged: share of rows whose labels are wrong and whose judges differ up to which hard rows are
        preferred, and at which none are; beyond, easy ones.
    chance: standard errors by which labels held back may agree less often by chance; from the
        second number on it is none.
    known_by_heart: how often labels held back agree where predictions are confident, over how often
        all labels do, up to which they are known by heart, and from which on they are not.
    """

    pace: float = 0.02
    prior_share: float = 0.005
    shared_mistakes: tuple[float, float] = (0.5, 0.8)
    unjudged: tuple[float, float] = (0.1, 0.4)
    chance: tuple[float, float] = (1.5, 3.0)
    known_by_heart: tuple[float, float] = (0.5, 0.8)

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
        found = {
            "judges": votes.argmax(dim=1) == probabilities.argmax(dim=1),
            "agreeing": likeliest == labels,
            "misses": predicted != labels,
        }
        self._all.update(weights, candidates.usable, confidence, found)
        self._held_back.update(weights, candidates.usable & held_back, confidence, found)
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

    def difficulty(self, clean_ratio: Tensor) -> Tensor:
        """Return how far hard rows are to be preferred, from 1 to -1: then easy ones are.

        What is hard is often wrong where noise is not even, and where labels are wrong and the
        judges differ, so that nothing tells them apart.
        """
        unjudged = (1 - clean_ratio) * (1 - self.judges())
        low, high = self.unjudged
        return self.evenness() * ((high - unjudged) / (high - low)).clamp(-1, 1)

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
        return Shares(*(every + (held - every) * self._memorising for every, held in pairs))

    def _compare(self, rows: Tensor, distinct: float) -> Tensor:
        """Return how clearly labels are known by heart, in slots of so many rows.

        Of the rows held back, those count whose predictions are the more confident ones: others
        may agree less often because they are hard.
        """
        share = self._held_back.sum("confident")
        looks = share * rows * min(self._slots, 1 / self.pace)
        rows_held = share * min(distinct, 1e9)  # looked at again and again, one says no more
        independent = 1 / (1 / looks.clamp_min(1e-9) + 1 / rows_held.clamp_min(1e-9))
        every, held = self._all.shares().agreeing, 1 - self._held_back.shares().confident_misses
        mean = ((every + held) / 2).clamp(0.05, 0.95)
        errors = (every - held) * (independent / (mean * (1 - mean))).sqrt()
        beyond = rise(errors, self.chance)
        return beyond * (1 - rise(held / every.clamp_min(1e-3), self.known_by_heart))

    def _means(self) -> dict[str, RunningMean]:
        tallies = {"all": self._all, "held_back": self._held_back}
        return {
            "rows": self._rows,
            "agreeing": self._agreeing,
            **{f"{set_}.{name}": m for set_, t in tallies.items() for name, m in t.sums.items()},
        }
