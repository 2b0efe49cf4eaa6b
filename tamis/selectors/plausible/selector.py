"""Plausible labels first, then the rows with most left to learn: the successor of OGRS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.selectors.plausible.calibration import Calibration
from tamis.selectors.plausible.candidates import Candidates, look
from tamis.selectors.plausible.class_balance import ClassBalance
from tamis.selectors.plausible.confusion import Confusion
from tamis.selectors.plausible.first_looks import FirstLooks
from tamis.selectors.plausible.neighbours import Neighbours
from tamis.selectors.plausible.running import Part, State, join_states, load_states
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    draw_rows,
    is_trainable,
    trainable,
)


class Verdict(NamedTuple):
    """The posterior of the classes of each row, and what it means for the given label.

    `confidence` is the probability of the most likely class, `margin` how far it is ahead of the
    next. A label is plausible where no other class is more likely.
    """

    posterior: Tensor
    label_probability: Tensor
    confidence: Tensor
    margin: Tensor
    plausible: Tensor


@dataclass(kw_only=True)
class Plausible:
    """Pick rows whose label is plausible, most often those with most left to learn.

    The evidence for the class of a row is the votes of its neighbours and the prediction of the
    averaged model. Its calibration and the clean ratio are fitted to the labels themselves, and so
    is the confusion of classes; with these, evidence and label give the posterior of the true
    class. A label is plausible where no other class is more likely. Four candidates a pick are
    drawn at random. Picks are drawn from the plausible ones, with probabilities that rise with
    the margin of the label and with the gradient of the loss that is left.

    docs/methods/plausible.md has the problem that this solves, and what each part is worth.

    Parameters
    ----------
    neighbours: the votes.
    class_balance: scales evidence so that no class is lost.
    first_looks: which rows are new.
    calibration: clean ratio, temperature and trust in the evidence.
    confusion: which classes get which labels.
    vote_weight: power of the votes in the evidence; above that of the model, which was trained on
        the labels that it judges.
    model_weight: power of the model's probabilities in the evidence.
    smoothing: added to votes and probabilities, so that neither alone rules a class out.
    confidence_weight: power of the margin in the probability of a pick.
    difficulty_weight: power of the gradient in the probability of a pick.
    pseudo_labels: also pick rows whose label is not plausible, with the posterior as target.
    pseudo_label_confidence: least probability of the most likely class of such a row.
    pseudo_label_trust: least trust in the evidence before any such row is picked.
    least_picks: picks where less is plausible: the rows of the most likely labels.
    """

    preferred_window: ClassVar = "average"
    preferred_warm_up: ClassVar = 0

    neighbours: Neighbours = field(default_factory=Neighbours)
    class_balance: ClassBalance = field(default_factory=ClassBalance)
    first_looks: FirstLooks = field(default_factory=FirstLooks)
    calibration: Calibration = field(default_factory=Calibration)
    confusion: Confusion = field(default_factory=Confusion)
    vote_weight: float = 2.0
    model_weight: float = 1.0
    smoothing: float = 0.02
    confidence_weight: float = 1.0
    difficulty_weight: float = 1.0
    pseudo_labels: bool = True
    pseudo_label_confidence: float = 0.8
    pseudo_label_trust: float = 0.85
    least_picks: int = 4

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Draw k of the plausible rows, fewer where fewer are."""
        k, device = min(k, len(pool)), pool.labels.device
        rows = draw_rows(len(pool), LEAST_PER_PICK * k, generator, device)
        if device.type == "cpu":  # elsewhere it would have to be waited for
            rows = trainable(pool, rows)
        if not len(rows):
            return Picks(rows)
        uniform = to_device(torch.rand(len(rows), generator=generator), device)
        samples = pool[rows]
        can_be_used = is_trainable(samples, all_rows(samples))
        candidates = look(samples, view, can_be_used)
        new = self.first_looks.update(pool.ids, rows)
        verdict = self.judge(candidates, samples.ids, new, len(pool))
        relabelled = self._relabelled(verdict)
        eligible = verdict.plausible | relabelled
        # Where nothing is usable the model has diverged: pick all the same, the trainer finds out.
        good = torch.where(candidates.usable.any(), candidates.usable, can_be_used)
        likely = verdict.label_probability.masked_fill(~good, -1)
        likeliest = likely.topk(min(self.least_picks, k, len(rows))).indices
        eligible = eligible.index_fill(0, likeliest, True) & good
        difficulty = 1.01 - learned(candidates, verdict, relabelled)
        margin = verdict.margin.clamp_min(1e-4)
        weights = margin**self.confidence_weight * difficulty**self.difficulty_weight
        # The k highest of log weight plus Gumbel noise are k draws by weight, none twice.
        gumbel = -(-uniform.clamp(1e-9, 1 - 1e-7).log()).log()
        scores = torch.where(eligible, weights.log() + gumbel, -torch.inf)
        best = scores.topk(min(k, len(rows))).indices
        targets = None
        if self.pseudo_labels:
            given = candidates.one_hot(best)
            targets = torch.where(relabelled[best][:, None], verdict.posterior[best], given)
        return Picks.only(rows[best], eligible[best], targets=targets)

    def judge(self, candidates: Candidates, ids: Tensor, new: Tensor, distinct: float) -> Verdict:
        """Return how plausible the labels of these rows are, and update every part by them.

        `new` marks rows seen for the first time, in a pool of so many `distinct` rows.
        """
        # The order matters: voters count by the clean ratio of the slots before, the posterior by
        # that of this slot and by the confusion of the slots before.
        weights = candidates.weights()
        votes, places = self.neighbours.update(candidates, ids, self.calibration.clean_ratio)
        votes, probabilities = self.class_balance.update(
            candidates.label_shares(), votes, candidates.probabilities, weights
        )
        evidence = (votes + self.smoothing).log_().mul_(self.vote_weight)
        evidence.add_((probabilities + self.smoothing).log_().mul_(self.model_weight))
        labels = candidates.labels.masked_fill(~candidates.usable, -1)
        classes = self.calibration.update(evidence, labels, weights, new, distinct)
        posterior = self.confusion.posterior(candidates, classes, self.calibration.clean_ratio)
        likeliest = posterior.topk(2, dim=1)
        self.confusion.update(candidates, posterior, likeliest.indices)
        right = posterior.gather(1, candidates.labels[:, None])[:, 0]
        self.neighbours.set_weights(places, right, candidates.usable)
        first, second = likeliest.values.unbind(dim=1)
        return Verdict(posterior, right, first, first - second, right >= first)

    def clean_ratio(self) -> float | None:
        """Return the estimated clean ratio; None before the first slot."""
        return self.calibration.clean_ratio if self.calibration.started else None

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change the labels that these rows vote with."""
        self.neighbours.relabel(ids, labels)

    def remove(self, ids: Tensor) -> None:
        """Remove these rows from the voters."""
        self.neighbours.remove(ids)
        self.first_looks.remove(ids)

    def state_dict(self) -> State:
        """Return the states of all parts; nothing before the first slot."""
        return join_states(self._parts())

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._parts(), state)

    def _parts(self) -> dict[str, Part]:
        return {
            "neighbours": self.neighbours,
            "class_balance": self.class_balance,
            "first_looks": self.first_looks,
            "calibration": self.calibration,
            "confusion": self.confusion,
        }

    def _relabelled(self, verdict: Verdict) -> Tensor:
        """Return a mask of the rows that have the posterior as their target."""
        if not self.pseudo_labels:
            return torch.zeros_like(verdict.plausible)
        confident = verdict.confidence >= self.pseudo_label_confidence
        trusted = self.calibration.trust >= self.pseudo_label_trust
        return ~verdict.plausible & confident & trusted


def learned(candidates: Candidates, verdict: Verdict, relabelled: Tensor) -> Tensor:
    """Return the probability that the model gives to the target of each row."""
    given = candidates.probabilities.gather(1, candidates.labels[:, None])[:, 0]
    if relabelled.device.type == "cpu" and not relabelled.any():
        return given
    other = (verdict.posterior * candidates.probabilities).sum(dim=1)
    return torch.where(relabelled, other, given)
