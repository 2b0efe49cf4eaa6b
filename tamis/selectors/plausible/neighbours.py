"""Votes of neighbours in feature space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tamis.data import match_ids
from tamis.noise import pairs
from tamis.selectors.plausible.candidates import FARTHEST, Candidates
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states


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
        self._weights[places] = candidates.usable[: len(places)].to(self._weights) * (
            self.least_weight + clean_ratio
        )
        self._reuse.update(weights @ candidates.uses)
        return self._vote(directions, ids, candidates.classes), places

    def vote(self, candidates: Candidates, ids: Tensor) -> Tensor:
        """Return the votes for each of these rows, which do not become voters."""
        return self._vote(self._direct(candidates.features), ids, candidates.classes)

    def set_weights(self, places: Tensor, label_probability: Tensor, usable: Tensor) -> None:
        """Weight the voters at these places by the probability that their labels are right."""
        weights = usable * (self.least_weight + label_probability)
        self._weights[places] = weights[: len(places)]

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
        newest = weights @ features.square()
        if self._square.value is not None:
            # One huge row alone in a slot passes for usual there, and would outweigh all after it.
            largest, before = newest.amax(), self._square.value.to(newest).amax()
            stale = (before > FARTHEST**2 * largest.clamp_min(1)) & (largest > 0)
            self._mean.restart(weights @ features, stale)
            self._square.restart(newest, stale)
        self._mean.update(weights @ features)
        self._square.update(newest)

    def _direct(self, features: Tensor) -> Tensor:
        """Return the features, each of running mean 0 and deviation 1, as unit vectors."""
        mean, square = self._mean.value, self._square.value
        if mean is None or square is None:
            raise ValueError("There are no voters before the first slot.")
        deviation = (square - mean.square()).clamp_min(1e-12).sqrt()
        return functional.normalize((features - mean) / deviation)

    def _add(self, directions: Tensor, candidates: Candidates, ids: Tensor) -> Tensor:
        """Write the rows over the oldest voters, and return their places."""
        if not self._written:
            self._directions = directions.new_zeros(self.voters, directions.shape[1])
        self._directions, self._weights = (
            self._directions.to(directions),
            self._weights.to(directions),
        )
        self._labels, self._ids = self._labels.to(ids.device), self._ids.to(ids.device)
        count = min(len(ids), len(self._ids))
        places = (self._written + torch.arange(count, device=ids.device)) % len(self._ids)
        self._directions[places] = directions[:count]
        self._labels[places], self._ids[places] = candidates.labels[:count], ids[:count]
        self._written += count
        return places

    def _vote(self, directions: Tensor, ids: Tensor, classes: int) -> Tensor:
        held = min(self._written, len(self._ids))
        similarity = (self.sharpness * directions) @ self._directions[:held].T
        similarity.masked_fill_(ids[:, None] == self._ids[:held], -torch.inf)
        similarity = similarity.softmax(dim=1).nan_to_num_(0)  # a row alone has no neighbour
        labels, weights = self._labels[:held], self._weights[:held]
        weights = torch.where(weights > 0, weights ** self.strictness(), weights)
        if classes > pairs.MANY_CLASSES:
            votes = add_columns(similarity.mul_(weights), labels, classes)
        else:
            given = functional.one_hot(labels, classes).to(similarity.dtype)
            votes = similarity @ (given * weights[:, None])
        return votes.div_(votes.sum(dim=1, keepdim=True).clamp_min(1e-9))


def add_columns(values: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return the sum of the columns of each label, (rows, classes)."""
    sums = values.new_zeros(len(values), classes)
    if values.device.type == "cpu":
        return sums.scatter_add_(1, labels.expand_as(values), values)
    # On a GPU scatter_add_ adds in any order, and the same seed would not give the same numbers.
    rows = torch.arange(len(values), device=values.device)[:, None]
    return sums.index_put_((rows, labels), values, accumulate=True)
