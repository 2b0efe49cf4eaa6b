"""Votes of neighbours in feature space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import match_ids
from tamis.noise import pairs
from tamis.selectors.plausible.candidates import FARTHEST, Candidates
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states

ROWS = 512
"""Rows multiplied with the voters at a time on a CPU: their product stays in its cache."""
STEP, SHAPE = 32, 256
"""Rows and voters by which a product grows: each shape of one in bfloat16 takes memory for good."""
HIGHEST = 40.0
"""Logarithm up to which the exponentials of as many as there are voters can be added up."""
LEAST = 1e-30
"""Least sum of votes that is divided by. Only a row without any neighbour has less."""


@dataclass(kw_only=True)
class Neighbours:
    """Votes for the class of each row, by the given labels of the rows most similar to it.

    The last candidates vote, each with its given label, none for itself. Similarity is the cosine
    of standardised features. Training on a label again and again draws its row to others of that
    label, so that wrong labels would vote for each other: the more often rows are used, the more a
    voter counts by the probability that its own label is right. In a stream that is seen once they
    do not, and weighting would only narrow what is accepted.

    Parameters
    ----------
    voters: candidates kept, the newest ones.
    sharpness: inverse temperature of the softmax over cosines.
    least_weight: added to the probability of a voter's label, so that no voter is silenced.
    reuse_scale: mean uses at which weights are the square root of that sum; above, stricter.
    pace: share of the newest slot in running means.
    """

    voters: int = 2048
    sharpness: float = 20.0
    least_weight: float = 0.05
    reuse_scale: float = 4.0
    pace: float = 0.05

    def __post_init__(self) -> None:
        if not (self.voters >= 1 and self.sharpness > 0 and self.reuse_scale > 0):
            raise ValueError(f"Voters, sharpness and reuse scale must be above 0, got {self}.")
        self._reset()

    def _reset(self) -> None:
        self._cosines = torch.empty(0)
        self._directions, self._weights = torch.zeros(self.voters, 0), torch.zeros(self.voters)
        self._labels = torch.zeros(self.voters, dtype=torch.long)
        self._ids = torch.full((self.voters,), -1)
        self._mean, self._square, self._reuse = (RunningMean(self.pace) for _ in range(3))
        self._written = 0

    def update(
        self, candidates: Candidates, ids: Tensor, clean_ratio: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """Add the rows as voters, and return the votes for each row and the voters' places.

        Their labels are as likely right as any, until `set_weights` is called.
        """
        weights = candidates.weights()
        self._update_means(candidates.features, weights)
        directions = self._direct(candidates.features)
        places = self._add(directions, candidates, ids)
        usable = candidates.usable[: len(places)].to(self._weights.dtype)
        self._weights.index_copy_(0, places, usable * (self.least_weight + clean_ratio))
        self._reuse.update(weights @ candidates.uses)
        return self._vote(directions, ids, candidates.classes), places

    def vote(self, candidates: Candidates, ids: Tensor) -> Tensor:
        """Return the votes for each of these rows, which do not become voters."""
        return self._vote(self._direct(candidates.features), ids, candidates.classes)

    def set_weights(self, places: Tensor, label_probability: Tensor, usable: Tensor) -> None:
        """Weight the voters at these places by the probability that their labels are right."""
        weights = usable * (self.least_weight + label_probability)
        self._weights.index_copy_(0, places, weights[: len(places)])

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change the labels of the voters of these ids."""
        voters, given = match_ids(self._ids, ids)
        self._labels[voters] = labels.to(self._labels.device)[given]

    def remove(self, ids: Tensor) -> None:
        """Take the vote, and the id, from the voters of these ids."""
        gone = torch.isin(self._ids, ids.to(self._ids.device))
        self._weights[gone], self._ids[gone] = 0, -1

    def strictness(self) -> Tensor | float:
        """Return the power of the voters' weights: 0 where no row is used twice, 1 at the most."""
        reuse = self._reuse.value
        return 0.0 if reuse is None else reuse / (reuse + self.reuse_scale)

    def state_dict(self) -> State:
        """Return the voters and the running means; nothing before the first slot."""
        if not self._written:
            return {}
        return join_states(self._means()) | {
            "directions": self._directions.clone(),
            "weights": self._weights.clone(),
            "labels": self._labels.clone(),
            "ids": self._ids.clone(),
            "written": torch.tensor(self._written),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._reset()
        load_states(self._means(), state)
        if state:
            self._directions, self._weights = state["directions"].clone(), state["weights"].clone()
            self._labels, self._ids = state["labels"].clone(), state["ids"].clone()
            self._written = int(state["written"])

    def _means(self) -> dict[str, RunningMean]:
        return {"mean": self._mean, "square": self._square, "reuse": self._reuse}

    def _update_means(self, features: Tensor, weights: Tensor) -> None:
        """Add a slot to the running means of the features and of their squares."""
        mean, square = weights @ features, weights @ features.square()
        if self._square.value is not None:
            # One huge row alone in a slot passes for usual there, and would outweigh all after it.
            largest, before = square.amax(), self._square.value.to(square).amax()
            stale = (before > FARTHEST**2 * largest.clamp_min(1)) & (largest > 0)
            if stale.device.type != "cpu" or stale:  # elsewhere it would have to be waited for
                self._mean.restart(mean, stale)
                self._square.restart(square, stale)
        self._mean.update(mean)
        self._square.update(square)

    def _direct(self, features: Tensor) -> Tensor:
        """Return the features, each of running mean 0 and deviation 1, as unit vectors."""
        mean, square = self._mean.value, self._square.value
        if mean is None or square is None:
            raise ValueError("There are no voters before the first slot.")
        deviation = (square - mean.square()).clamp_min_(1e-12).sqrt_()
        scaled = (features - mean).div_(deviation)
        return scaled.div_(torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min_(1e-12))

    def _add(self, directions: Tensor, candidates: Candidates, ids: Tensor) -> Tensor:
        """Write the rows over the oldest voters, and return their places."""
        kind = multiplied_in(directions)
        if not self._written:
            self._directions = directions.new_zeros(self.voters, directions.shape[1], dtype=kind)
        self._directions = self._directions.to(directions.device, kind)
        self._weights = self._weights.to(directions)
        self._labels, self._ids = self._labels.to(ids.device), self._ids.to(ids.device)
        count, first = min(len(ids), len(self._ids)), self._written % len(self._ids)
        places = torch.arange(first, first + count, device=ids.device)
        if first + count <= len(self._ids):
            self._directions[first : first + count] = directions[:count]
        else:
            places %= len(self._ids)
            self._directions.index_copy_(0, places, directions[:count].to(kind))
        self._labels.index_copy_(0, places, candidates.labels[:count])
        self._ids.index_copy_(0, places, ids[:count])
        self._written += count
        return places

    def _vote(self, directions: Tensor, ids: Tensor, classes: int) -> Tensor:
        held = min(self._written, len(self._ids))
        closeness = self._closeness(directions, ids, held)
        held = closeness.shape[1]
        labels, weights = self._labels[:held], self._weights[:held]
        weights = torch.where(weights > 0, weights ** self.strictness(), weights)
        if classes > pairs.MANY_CLASSES:
            votes = add_columns(closeness[: len(ids)] * weights, labels, classes)
        else:
            given = closeness.new_zeros(classes, held)
            given.scatter_(0, labels[None], weights.to(given.dtype)[None])
            votes = directions.new_empty(len(closeness), classes)
            for rows, part in zip(votes.split(ROWS), closeness.split(ROWS), strict=True):
                rows.copy_((given @ part.T).T)
            votes = votes[: len(ids)]
        return votes.div_(votes.sum(dim=1, keepdim=True).clamp_min_(LEAST))

    def _closeness(self, directions: Tensor, ids: Tensor, held: int) -> Tensor:
        """Return the exponential of each cosine times the sharpness; 0 of a row with itself.

        Voters that do not exist yet, of weight 0, fill up the last columns, and rows that do not
        exist the last rows. On a CPU it is written over that of the slot before: fresh memory costs
        more than the product.
        """
        scaled = (self.sharpness * directions).to(self._directions.dtype)
        if directions.device.type != "cpu":
            cosines = (scaled @ self._directions[:held].T).to(directions)
            cosines.masked_fill_(ids[:, None] == self._ids[:held], -torch.inf)
            return self._exponential(cosines)
        voters, count = self._directions[: held + -held % SHAPE], len(ids) + -len(ids) % STEP
        if self._cosines.dtype != voters.dtype or len(self._cosines) < count * len(voters):
            self._cosines = voters.new_empty(count * len(self._ids))
        cosines = self._cosines[: count * len(voters)].view(count, len(voters))
        if len(scaled) < count:
            scaled = functional.pad(scaled, (0, 0, 0, count - len(scaled)))
        for rows, part in zip(cosines.split(ROWS), scaled.split(ROWS), strict=True):
            torch.mm(part, voters.T, out=rows)
        rows, own = pairs.matching_pairs(ids, self._ids[:held])
        cosines.index_put_((rows, own), cosines.new_tensor(-torch.inf))
        return self._exponential(cosines)

    def _exponential(self, cosines: Tensor) -> Tensor:
        """Return the exponential of cosines times the sharpness, in place, of what it can be of."""
        if self.sharpness > HIGHEST:
            cosines -= cosines.amax(dim=1, keepdim=True).clamp_min_(-self.sharpness)
        return cosines.exp_()


def multiplied_in(directions: Tensor) -> torch.dtype:
    """Return the type in which cosines are computed: in bfloat16 where a CPU has it.

    There it is four times as fast as single precision, and errs by 0.004 at the most.
    """
    if directions.dtype != torch.float32 or directions.device.type != "cpu" or not has_bfloat16():
        return directions.dtype
    return torch.bfloat16


@lru_cache(maxsize=1)
def has_bfloat16() -> bool:
    """Return whether the processor multiplies in bfloat16."""
    return any(
        getattr(torch.cpu, name, lambda: False)()
        for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )


def add_columns(values: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return the sum of the columns of each label, (rows, classes)."""
    sums = values.new_zeros(len(values), classes)
    if values.device.type == "cpu":
        return sums.scatter_add_(1, labels.expand_as(values), values)
    # On a GPU scatter_add_ adds in any order, and the same seed would not give the same numbers.
    rows = torch.arange(len(values), device=values.device)[:, None]
    return sums.index_put_((rows, labels), values, accumulate=True)
