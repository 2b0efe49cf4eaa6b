"""Plausible, then most to learn: the project's own rule, the next generation of OGRS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples, match_ids, to_device
from tamis.model_view import ModelView
from tamis.model_view.view import at_least_float
from tamis.noise import Tracker
from tamis.noise.tracker import observe, reweight
from tamis.selectors.sampling import (
    LEAST_PER_PICK,
    all_rows,
    draw_rows,
    is_trainable,
    trainable,
)

DOUBT = 0.02
"""What is added to every vote and belief: neither alone rules a label out."""
FAINT = 0.05
"""Say of a voter whose own label is surely wrong."""
OFTEN = 4.0
"""Uses of a row, on average, from which on voters are more than half as strictly weighed."""
PACE, SLOW = 0.05, 0.01
"""Share of the newest slot in a running mean, and in that of how labels get mixed up."""
AGAIN = 1 / 32
"""What a row tells of the clean ratio when it is looked at again, and may have been learned from.

A power of 2: where all rows are looked at again, fits are the same to the bit as by whole rows.
"""
TURNOVER = 0.25
"""Share of the pool that gives way to new rows while half of what it told is forgotten."""
UNKNOWN = 0.9
"""Mean share of new rows from which on none is taken for new: pools are draws, or batches."""
REFIT, EARLY = 50, (1, 2, 4, 8, 16, 32)
"""Slots from one fit of the clean ratio to the next, and those of further fits at the start."""
SURE, EARNED = 0.8, 0.85
"""A label is mended where another one is this likely, and first choices are right this often."""
LEAST = 4
"""Picks at the least: the likeliest rows, where nothing is plausible."""


class Parts(NamedTuple):
    """What a verdict is made of: set one to 0 or False to see what it is worth.

    A vote counts more than a belief, since beliefs have seen the labels that they judge.
    """

    votes: float = 2.0
    beliefs: float = 1.0
    aligned: bool = True
    earned: bool = True
    confusion: bool = True
    reuse: bool = True
    first_looks: bool = True


ALL_PARTS = Parts()


class Views(NamedTuple):
    """Rows as the averaged model sees them; what cannot be used weighs nothing."""

    features: Tensor
    beliefs: Tensor
    labels: Tensor
    good: Tensor
    uses: Tensor


class Verdict(NamedTuple):
    """What is thought of every row: classes by their probability, and where the label stands."""

    posterior: Tensor
    right: Tensor
    lead: Tensor
    plausible: Tensor


@dataclass
class Plausible:
    """Of rows whose given label is plausible, pick those that there is most to learn from.

    What class a row is of is asked of its neighbours among the last `voters` rows looked at, each
    voting with its given label, none for itself, and of the averaged model. The more often rows
    are used, the more a voter counts by how likely its own label is. How far both can be
    believed, and how many labels are right, is fitted to the labels themselves; so is which
    classes get mixed up. A label is plausible where no other class is likelier once all that, and
    the label, is known. Picks are drawn from the plausible rows, the more often the surer their
    label is (to the power `caution`) and the steeper their loss still is (`curiosity`). `mend`:
    rows whose label is not plausible are used too, with what is likelier as their target, once
    first choices are right often enough. `parts` of the verdict can be left out.

    It looks through the average of the weights. Four candidates a pick are drawn at random;
    neighbours are close by `sharpness`. The clean ratio is fitted above all to rows looked at for
    the first time: the others were picked, or not, by what it was before, so that a change would
    be noticed late or never. What rows tell fades by half over `half_life` rows looked at, and
    over a quarter of the pool that gives way to new ones.
    docs/methods/plausible.md has the problem that this solves, and what each part is worth.
    """

    preferred_window: ClassVar = "average"
    preferred_warm_up: ClassVar = 0

    voters: int = 2048
    sharpness: float = 20.0
    half_life: float = 10_000.0
    mend: bool = True
    caution: float = 1.0
    curiosity: float = 1.0
    parts: Parts = ALL_PARTS

    def __post_init__(self) -> None:
        if not (self.voters >= 1 and self.sharpness > 0 and self.half_life > 0):
            raise ValueError(f"Voters, sharpness and half_life are above 0, got {self}.")
        self._memory: Memory | None = None

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Draw k of the plausible rows, fewer where fewer are."""
        k, device = min(k, len(pool)), pool.labels.device
        rows = draw_rows(len(pool), LEAST_PER_PICK * k, generator, device)
        if device.type == "cpu":  # elsewhere it would have to be waited for
            rows = trainable(pool, rows)
        if not len(rows):
            return Picks(rows)
        chance = to_device(torch.rand(len(rows), generator=generator), device)
        among = pool[rows]
        can_be_used = is_trainable(among, all_rows(among))
        seen = look(among, view, can_be_used)
        if self._memory is None:
            classes, width = seen.beliefs.shape[1], seen.features.shape[1]
            self._memory = Memory(classes, width, self.voters, self.half_life, self.parts)
        verdict = self._memory.judge(seen, among.ids, self.sharpness, pool.ids, rows)
        targets = functional.one_hot(seen.labels, seen.beliefs.shape[1]).to(seen.beliefs.dtype)
        fitting = verdict.plausible
        if self.mend:
            mended = (
                ~fitting & (verdict.posterior.amax(dim=1) >= SURE) & (self._memory.trust >= EARNED)
            )
            targets = torch.where(mended[:, None], verdict.posterior, targets)
            fitting = fitting | mended
        steepness = 1.01 - (targets * seen.beliefs).sum(dim=1)
        # The k highest of log weight plus Gumbel noise are k draws by weight, none twice.
        noise = -(-chance.clamp(1e-9, 1 - 1e-7).log()).log()
        weight = verdict.lead.clamp_min(1e-4) ** self.caution * steepness**self.curiosity
        score = weight.log() + noise
        # Where nothing can be seen any more the model is broken: let the trainer find out.
        good = torch.where(seen.good.any(), seen.good, can_be_used)
        likely = verdict.right.masked_fill(~good, -1)
        likeliest = likely.topk(min(LEAST, k, len(rows))).indices
        fitting = fitting.index_fill(0, likeliest, True) & good
        best = torch.where(fitting, score, -torch.inf).topk(min(k, len(rows))).indices
        return Picks.only(rows[best], fitting[best], targets=targets[best] if self.mend else None)

    def clean_ratio(self) -> float | None:
        """Share of labels that are right, as far as is known."""
        return None if self._memory is None else self._memory.ratio

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Let these rows vote with other labels from now on."""
        if self._memory is not None:
            self._memory.relabel(ids, labels)

    def remove(self, ids: Tensor) -> None:
        """Let these rows vote no more."""
        if self._memory is not None:
            self._memory.remove(ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that is remembered."""
        return {} if self._memory is None else self._memory.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take up what `state_dict` gave."""
        self._memory = None
        if state:
            voters, width = state["directions"].shape
            self._memory = Memory(len(state["given"]), width, voters, self.half_life, self.parts)
            self._memory.load_state_dict(state)


def look(samples: Samples, view: ModelView, good: Tensor) -> Views:
    """Look at the good rows through the averaged model; what is kept of them is good enough."""
    if samples.features is None:
        blank = good.reshape(-1, *[1] * (samples.inputs.dim() - 1))
        inputs = torch.where(blank, samples.inputs, torch.zeros_like(samples.inputs))
        features, beliefs = view.features_and_probabilities(inputs)
    else:
        features = at_least_float(samples.features)
        beliefs = view.probabilities_at(features)
    good = good & features.isfinite().all(dim=1) & beliefs.isfinite().all(dim=1)
    return Views(
        features.masked_fill(~good[:, None], 0),
        beliefs.masked_fill(~good[:, None], 0),
        samples.labels.clamp_min(0),
        good,
        samples.uses.to(beliefs.dtype),
    )


class Memory:
    """The last rows looked at, running means, and the ids of the pool: bounded as the pool is."""

    def __init__(
        self, classes: int, width: int, voters: int, half_life: float, parts: Parts = ALL_PARTS
    ) -> None:
        even = torch.full((classes,), 1 / classes)
        self.directions, self.says = torch.zeros(voters, width), torch.zeros(voters)
        self.labels, self.ids = torch.zeros(voters, dtype=torch.long), torch.full((voters,), -1)
        self.mean, self.square = torch.zeros(width), torch.zeros(width)
        self.given, self.believed, self.voted = even, even, even
        # Share of rows of each true class and given label, as far as is known.
        self.joint = even[:, None] * even
        self.trust, self.reuse = torch.zeros(()), torch.zeros(())
        # Ids of the rows of the pool, as of when their places were last looked at.
        self.looked, self.turnover = torch.empty(0, dtype=torch.long), torch.ones(())
        self.parts = parts
        self.tracker = Tracker(classes, half_life)
        self.ratio, self.slack = 0.5, 1.0
        self.slots = self.written = 0
        self.moved = False

    def join(self, beliefs: Tensor) -> None:
        """Move all that is kept to where the rows are, numbers as precise as theirs."""
        for name in KEPT:
            kept: Tensor = getattr(self, name)
            dtype = beliefs.dtype if kept.is_floating_point() else kept.dtype
            setattr(self, name, kept.to(beliefs.device, dtype))

    def judge(
        self,
        seen: Views,
        ids: Tensor,
        sharpness: float,
        pool: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Verdict:
        """Say how plausible the labels of these rows are, and learn from having seen them.

        They are `rows` of a pool with these ids, if it is known which.
        """
        self.join(seen.beliefs)
        new = torch.zeros_like(seen.good)
        if pool is not None and rows is not None:
            new = self._find_new(pool, rows)
        weight = (seen.good / seen.good.sum().clamp_min(1)).to(seen.beliefs.dtype)
        given = functional.one_hot(seen.labels, len(self.given)).to(seen.beliefs.dtype)
        directions = self._direct(seen.features, weight)
        at = self._remember(directions, seen, ids)
        self.reuse = self._blend(self.reuse, weight @ seen.uses)
        votes = self._ask(directions, ids, sharpness)
        self.given = self._blend(self.given, weight @ given)
        self.believed = self._blend(self.believed, weight @ seen.beliefs)
        self.voted = self._blend(self.voted, weight @ votes)
        votes, beliefs = self._align(votes, self.voted), self._align(seen.beliefs, self.believed)
        evidence = self.parts.votes * (votes + DOUBT).log()
        evidence = evidence + self.parts.beliefs * (beliefs + DOUBT).log()
        labels = seen.labels.masked_fill(~seen.good, -1)
        different = math.inf if pool is None else len(pool)
        observed = observe(evidence.softmax(dim=1), labels, len(self.given))
        weights = torch.where(new, 1.0, AGAIN).to(observed.known)
        replaced = (observed.known * new).sum() / (TURNOVER * different)
        age = observed.total + replaced * self.tracker.half_life
        self.tracker.count(reweight(observed, weights, age))
        if self.slots % REFIT == 0 or self.slots in EARLY:
            self.ratio, self.slack = self.tracker.fit(different)
        classes = (evidence / self.slack).softmax(dim=1)
        self.trust = self._blend(self.trust, weight @ classes.amax(dim=1))
        # What first choices are worth is all that they have earned: early on, nearly nothing.
        earned = self.trust if self.parts.earned else 1.0
        classes = (evidence / self.slack * earned).softmax(dim=1)
        posterior = classes * self.confusion(seen.good.sum())[:, seen.labels].T
        posterior = posterior / posterior.sum(dim=1, keepdim=True)
        self.joint = self.joint.lerp((posterior * weight[:, None]).T @ given, SLOW)
        right = posterior.gather(1, seen.labels[:, None])[:, 0]
        self.says[at] = (seen.good * (FAINT + right))[: len(at)]
        first, second = posterior.topk(2, dim=1).values.unbind(dim=1)
        self.slots += 1
        return Verdict(posterior, right, first - second, right >= first)

    def confusion(self, rows: Tensor) -> Tensor:
        """Share of each given label among rows of a class, where a slot has so many rows.

        The clean ratio stands on the diagonal; wrong labels are counted from one of each on.
        """
        wrong = 1 - torch.eye(len(self.given)).to(self.joint)
        counts = (self.joint * rows / SLOW * self.parts.confusion + 1) * wrong
        spread = counts / counts.sum(dim=1, keepdim=True)
        return self.ratio * (1 - wrong) + (1 - self.ratio) * spread

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Give the voters of these ids other labels."""
        voters, given = match_ids(self.ids, ids)
        self.labels[voters] = labels.to(self.labels.device)[given]

    def remove(self, ids: Tensor) -> None:
        """Take the vote, and the id, from the voters of these ids."""
        ids = ids.to(self.ids.device)
        gone = torch.isin(self.ids, ids)
        self.says[gone], self.ids[gone] = 0, -1
        self.looked[torch.isin(self.looked, ids)] = -1
        self.moved = True

    def _find_new(self, pool: Tensor, rows: Tensor) -> Tensor:
        """Say which rows are looked at for the first time; those of the first pool never are.

        A place in the pool whose row has another id than when it was last looked at has a new row.
        """
        if not self.slots:
            self.looked = pool.clone()
        elif self.moved:  # rows were removed and others took their places: go by ids, this once
            self.looked = torch.where(torch.isin(pool, self.looked), pool, -1)
            self.moved = False
        elif len(pool) > len(self.looked):
            more = self.looked.new_full((len(pool) - len(self.looked),), -1)
            self.looked = torch.cat([self.looked, more])
        new = self.looked[rows] != pool[rows]
        self.looked[rows] = pool[rows]
        self.turnover = self.turnover.lerp(new.to(self.turnover).mean(), PACE)
        return new & (self.turnover < UNKNOWN) & self.parts.first_looks

    def _direct(self, features: Tensor, weight: Tensor) -> Tensor:
        """Turn features into directions, every one of them as far spread as the others."""
        self.mean = self._blend(self.mean, weight @ features)
        self.square = self._blend(self.square, weight @ features.square())
        spread = (self.square - self.mean.square()).clamp_min(1e-12).sqrt()
        return functional.normalize((features - self.mean) / spread)

    def _remember(self, directions: Tensor, seen: Views, ids: Tensor) -> Tensor:
        """Let the rows vote in place of the oldest ones, and say where they stand now."""
        few = min(len(ids), len(self.labels))
        at = (self.written + torch.arange(few, device=ids.device)) % len(self.labels)
        self.directions[at], self.labels[at] = directions[:few], seen.labels[:few]
        self.ids[at] = ids[:few]
        self.says[at] = seen.good[:few].to(self.says) * (FAINT + self.ratio)
        self.written += few
        return at

    def _ask(self, directions: Tensor, ids: Tensor, sharpness: float) -> Tensor:
        """Let neighbours vote for the class of every row.

        A label that is trained on again and again draws its row to others like it, so that wrong
        ones would vote for each other: the more rows recur, the more a voter's own label matters.
        In a stream seen once they do not, and to weigh voters only narrows what is accepted.
        """
        held = min(self.written, len(self.labels))
        near = (sharpness * directions) @ self.directions[:held].T
        near.masked_fill_(ids[:, None] == self.ids[:held], -torch.inf)
        near = near.softmax(dim=1).nan_to_num_(0)  # a row alone has no neighbour
        given = functional.one_hot(self.labels[:held], len(self.given)).to(near.dtype)
        strictness = self.reuse / (self.reuse + OFTEN) if self.parts.reuse else 1.0
        says = self.says[:held]
        says = torch.where(says > 0, says**strictness, says)
        votes = near @ (given * says[:, None])
        return votes / votes.sum(dim=1, keepdim=True).clamp_min(1e-9)

    def _align(self, shares: Tensor, running: Tensor) -> Tensor:
        """Let classes be as frequent as their labels are: a class that is lost would stay lost."""
        if not self.parts.aligned:
            return shares
        shares = shares * (self.given / running.clamp_min(1e-3))
        return shares / shares.sum(dim=1, keepdim=True).clamp_min(1e-9)

    def _blend(self, running: Tensor, newest: Tensor) -> Tensor:
        """Move a running mean on; the first slot begins it."""
        return running.lerp(newest, PACE) if self.slots else newest

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that is remembered."""
        numbers = {name: torch.tensor(getattr(self, name), dtype=kind) for name, kind in NUMBERS}
        tracker = {f"tracker_{name}": value for name, value in self.tracker.state_dict().items()}
        return {name: getattr(self, name).clone() for name in KEPT} | numbers | tracker

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take up what `state_dict` gave."""
        for name in KEPT:
            setattr(self, name, state[name].clone())
        for name, _ in NUMBERS:
            setattr(self, name, state[name].item())
        self.tracker.load_state_dict(
            {name.removeprefix("tracker_"): state[name] for name in state if "tracker_" in name}
        )


KEPT = (
    "directions", "says", "labels", "ids", "mean", "square", "given", "believed", "voted", "joint",
    "trust", "reuse", "looked", "turnover",
)  # fmt: skip
NUMBERS = (
    ("ratio", torch.float64), ("slack", torch.float64), ("slots", torch.long),
    ("written", torch.long), ("moved", torch.bool),
)  # fmt: skip
