"""Plausible labels first, then the rows with most left to learn: the successor of OGRS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from tamis.data import Picks, Samples, to_device
from tamis.model_view import ModelView
from tamis.model_view.passes import two_largest
from tamis.noise.tracker import Estimate
from tamis.selectors.plausible.agreements import HIGHEST, LOWEST, Agreements
from tamis.selectors.plausible.calibration import Calibration
from tamis.selectors.plausible.candidates import Candidates, look, take
from tamis.selectors.plausible.class_balance import ClassBalance
from tamis.selectors.plausible.confusion import Confusion
from tamis.selectors.plausible.fallback import Fallback
from tamis.selectors.plausible.first_looks import FirstLooks
from tamis.selectors.plausible.input_votes import InputVotes
from tamis.selectors.plausible.neighbours import Neighbours
from tamis.selectors.plausible.running import Part, State, join_states, load_states
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    draw_rows,
    is_finite,
)

LEARNED = 0.3
"""How far the clean ratio is above that of rows when they were seen first where labels have been
learned by heart."""


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
    the margin of the label and, where noise is scattered, with the gradient of the loss that is
    left.

    docs/methods/plausible.md has the problem that this solves, and what each part is worth.

    Parameters
    ----------
    neighbours: the votes.
    input_votes: votes by inputs, against which labels and evidence are held.
    class_balance: scales evidence so that no class is lost.
    first_looks: which rows are new.
    agreements: how often labels, votes and predictions agree, by class.
    calibration: clean ratio, temperature and trust in the evidence.
    confusion: which classes get which labels.
    fallback: what picks and targets go by where nothing confirms the evidence.
    vote_weight: power of the votes in the evidence; above that of the model, which was trained on
        the labels that it judges.
    model_weight: power of the model's probabilities in the evidence.
    smoothing: added to votes and probabilities, so that neither alone rules a class out.
    confidence_weight: power of the margin in the probability of a pick where votes by inputs
        confirm the evidence, or the judges agree; elsewhere less, by `Agreements.weighting`.
    difficulty_weight: power of the gradient where, on top, noise is scattered; elsewhere it is
        less, by `Agreements.evenness`.
    pseudo_labels: also pick rows whose label is not plausible, with the posterior as target.
    use_unlabelled: do so with rows that have no label, too.
    pseudo_label_confidence: least probability of the most likely class of such a row.
    pseudo_label_trust: least trust in the evidence before any such row is picked.
    least_picks: picks where less is plausible: the rows of the most likely labels.
    """

    preferred_window: ClassVar = "average"
    preferred_warm_up: ClassVar = 0

    neighbours: Neighbours = field(default_factory=Neighbours)
    input_votes: InputVotes = field(default_factory=InputVotes)
    class_balance: ClassBalance = field(default_factory=ClassBalance)
    first_looks: FirstLooks = field(default_factory=FirstLooks)
    agreements: Agreements = field(default_factory=Agreements)
    calibration: Calibration = field(default_factory=Calibration)
    confusion: Confusion = field(default_factory=Confusion)
    fallback: Fallback = field(default_factory=Fallback)
    vote_weight: float = 2.0
    model_weight: float = 1.0
    smoothing: float = 0.02
    confidence_weight: float = 1.0
    difficulty_weight: float = 1.0
    pseudo_labels: bool = True
    use_unlabelled: bool = True
    pseudo_label_confidence: float = 0.8
    pseudo_label_trust: float = 0.85
    least_picks: int = 4

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Draw k of the plausible rows, fewer where fewer are."""
        k, device = min(k, len(pool)), pool.labels.device
        rows = draw_rows(len(pool), LEAST_PER_PICK * k, generator, device)
        samples = take(pool, rows)
        can_be_used = is_finite(samples.inputs) & (samples.labels >= 0)
        if device.type == "cpu" and not can_be_used.all():  # elsewhere it would be waited for
            rows, samples = rows[can_be_used], samples[can_be_used]
            can_be_used = can_be_used[can_be_used]
        if not len(rows):
            return Picks(rows)
        uniform = to_device(torch.rand(len(rows), generator=generator), device)
        candidates = look(samples, view, can_be_used, with_inputs=self.input_votes.due)
        new = self.first_looks.update(pool.ids, rows)
        verdict = self.judge(candidates, samples.ids, new, len(pool))
        relabelled = self._relabelled(verdict)
        eligible = verdict.plausible | relabelled
        # Where nothing is usable the model has diverged: pick all the same, the trainer finds out.
        good = torch.where(candidates.usable.any(), candidates.usable, can_be_used)
        likely = verdict.label_probability.masked_fill(~good, -1)
        likeliest = likely.topk(min(self.least_picks, k, len(rows))).indices
        eligible = eligible.index_fill(0, likeliest, True) & good
        weights = self._weights(verdict.margin, learned(candidates, verdict, relabelled))
        strength = self.fallback.strength(
            self.agreements.weighting().to(weights), self.calibration.clean_ratio
        )
        given = self.fallback.weights(candidates, strength)
        best = draw_by_weight(eligible, weights * given.where(~relabelled, 1), k, uniform)
        targets = None
        if self.pseudo_labels:
            given = candidates.one_hot(best)
            given = self.fallback.soften(given, verdict.posterior[best], strength)
            targets = torch.where(relabelled[best][:, None], verdict.posterior[best], given)
        return Picks.only(rows[best], eligible[best], targets=targets)

    def select_unlabelled(
        self, rows: Samples, view: ModelView, k: int, generator: Generator
    ) -> Picks:
        """Draw k of the rows whose class is certain enough, with its posterior as their target.

        They are judged by what the labelled rows have taught so far, and change none of it. Before
        the evidence has been trusted for long, no row is picked.
        """
        k, device, trust = min(k, len(rows)), rows.labels.device, self.calibration.lasting_trust
        wanted = k > 0 and self.pseudo_labels and self.use_unlabelled and self.calibration.started
        if wanted and device.type == "cpu":  # elsewhere it would have to be waited for
            wanted = bool(trust >= self.pseudo_label_trust)
        if not wanted:
            return Picks(all_rows(rows)[:0])
        drawn = draw_rows(len(rows), LEAST_PER_PICK * k, generator, device)
        uniform = to_device(torch.rand(len(drawn), generator=generator), device)
        samples = take(rows, drawn)
        candidates = look(samples, view, is_finite(samples.inputs), with_inputs=False)
        posterior = self.classify(candidates, samples.ids)
        first, second = posterior.topk(2, dim=1).values.unbind(dim=1)
        eligible = candidates.usable & self._certain(first, trust)
        weights = self._weights(first - second, (posterior * candidates.probabilities).sum(dim=1))
        best = draw_by_weight(eligible, weights, k, uniform)
        return Picks.only(drawn[best], eligible[best], targets=posterior[best])

    def classify(self, candidates: Candidates, ids: Tensor) -> Tensor:
        """Return the posterior of the classes of rows without labels, and update no part."""
        votes = self.neighbours.vote(candidates, ids)
        return self.calibration.calibrate(
            self._evidence(*self.class_balance.scale(votes, candidates.probabilities))
        )

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
        evidence = self._evidence(votes, probabilities)
        by_inputs = self.input_votes.update(candidates, ids)
        self.agreements.update(candidates, votes, probabilities, evidence, by_inputs, new, distinct)
        labels = candidates.labels.masked_fill(~candidates.usable, -1)
        classes = self.calibration.update(evidence, labels, weights, new, distinct, self.agreements)
        posterior = self.confusion.posterior(candidates, classes, self.clean_ratios())
        most, likeliest = two_largest(posterior)
        self.confusion.update(candidates, posterior, likeliest)
        right = posterior.gather(1, candidates.labels[:, None])[:, 0]
        self.neighbours.set_weights(places, right, candidates.usable)
        first, second = most.unbind(dim=1)
        return Verdict(posterior, right, first, first - second, right >= first)

    def clean_ratio(self) -> float | None:
        """Return the estimated clean ratio; None before the first slot."""
        return self.calibration.clean_ratio.item() if self.calibration.started else None

    def estimate(self) -> Estimate | None:
        """Return the clean ratio with what the stream, or an audit, leaves open; None before."""
        return self.calibration.estimate()

    def clean_ratio_band(self) -> tuple[float, float] | None:
        """Return the ends of the band around the clean ratio; None before the first slot."""
        found = self.estimate()
        return None if found is None else (found.low, found.high)

    def learned_by_heart(self) -> tuple[float, float] | None:
        """Return the clean ratio by rows when they were seen first, and now; None where they agree.

        They differ where rows were trained on so often that every label seems right. The second is
        that of the fit, before it is held down.
        """
        at_first = self.agreements.clean_ratio_at_first().item()
        now = self.calibration.fitted.clean_ratio
        return (at_first, now) if now - at_first >= LEARNED else None

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Take in which labels people found right (1) or wrong (0), of rows drawn at random."""
        self.calibration.audit(ids, right)

    def clean_ratios(self) -> Tensor:
        """Return the clean ratio of each class; of all, before the first slot."""
        ratio, by_class = self.calibration.clean_ratio, self.agreements.by_class()
        return ratio if by_class is None else (ratio * by_class).clamp(LOWEST, HIGHEST)

    def grow(self, classes: int) -> None:
        """Add classes, up to so many in all."""
        self.input_votes.grow(classes)
        self.class_balance.grow(classes)
        self.agreements.grow(classes)
        self.calibration.grow(classes)
        self.confusion.grow(classes)

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change the labels that these rows vote with."""
        self.neighbours.relabel(ids, labels)
        self.input_votes.relabel(ids, labels)

    def remove(self, ids: Tensor) -> None:
        """Remove these rows from the voters."""
        self.neighbours.remove(ids)
        self.input_votes.remove(ids)
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
            "input_votes": self.input_votes,
            "class_balance": self.class_balance,
            "first_looks": self.first_looks,
            "agreements": self.agreements,
            "calibration": self.calibration,
            "confusion": self.confusion,
        }

    def _evidence(self, votes: Tensor, probabilities: Tensor) -> Tensor:
        """Return the evidence for each class, unnormalised and in logarithms."""
        votes, probabilities = votes + self.smoothing, probabilities + self.smoothing
        if (self.vote_weight, self.model_weight) == (2, 1):
            return votes.square_().mul_(probabilities).log_()  # a logarithm takes eight times more
        evidence = votes.log_().mul_(self.vote_weight)
        return evidence.add_(probabilities.log_().mul_(self.model_weight))

    def _relabelled(self, verdict: Verdict) -> Tensor:
        """Return a mask of the rows that have the posterior as their target."""
        if not self.pseudo_labels:
            return torch.zeros_like(verdict.plausible)
        return ~verdict.plausible & self._certain(verdict.confidence, self.calibration.fitted_trust)

    def _certain(self, confidence: Tensor, trust: Tensor) -> Tensor:
        """Return a mask of the rows whose most likely class may be their target."""
        trusted = trust >= self.pseudo_label_trust
        return (confidence >= self.pseudo_label_confidence) & trusted

    def _weights(self, margin: Tensor, learned: Tensor) -> Tensor:
        """Return what the probability of each pick is proportional to."""
        weighting = self.agreements.weighting().to(margin)
        difficulty = self.difficulty_weight * weighting * self.agreements.evenness()
        confidence = self.confidence_weight * weighting
        return margin.clamp_min(1e-4) ** confidence * (1.01 - learned) ** difficulty


def draw_by_weight(eligible: Tensor, weights: Tensor, k: int, uniform: Tensor) -> Tensor:
    """Draw k of the eligible rows by weight, none twice; others follow where fewer are eligible."""
    # The k highest of log weight plus Gumbel noise are k draws by weight, none twice.
    gumbel = -(-uniform.clamp(1e-9, 1 - 1e-7).log()).log()
    scores = torch.where(eligible, weights.log() + gumbel, -torch.inf)
    return scores.topk(min(k, len(weights))).indices


def learned(candidates: Candidates, verdict: Verdict, relabelled: Tensor) -> Tensor:
    """Return the probability that the model gives to the target of each row."""
    given = candidates.probabilities.gather(1, candidates.labels[:, None])[:, 0]
    if relabelled.device.type == "cpu" and not relabelled.any():
        return given
    other = (verdict.posterior * candidates.probabilities).sum(dim=1)
    return torch.where(relabelled, other, given)
