"""Sample selection and relabelling (SSR): Feng, Tzimiropoulos and Patras, BMVC 2022."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.selectors.sampling import draw_rows, trainable


@dataclass
class SSR:
    """Relabel rows of high confidence; keep those whose label is their neighbours' first choice.

    A row whose highest probability is above `confident` (theta_r) takes the class that is predicted
    for the label given. Then the `neighbours` (k) nearest rows by the cosine of the features vote,
    each class divided by its frequency. A row is kept if its label has at least `share` (theta_s)
    of the votes of the first choice. Kept rows are drawn so that classes come equally often.

    `judged`: rows judged for each pick. They go to a bank of the newest `bank` rows, which vote.
    At most as many vote on a row as the bank has rows of a class on average. Features and labels
    in the bank are those of the slot in which a row was judged. Ids name the same row in every
    slot.
    """

    confident: float = 0.9
    share: float = 1.0
    neighbours: int = 50
    judged: int = 2
    bank: int = 2048

    def __post_init__(self) -> None:
        if not (0 < self.confident <= 1 and 0 <= self.share <= 1):
            raise ValueError(f"SSR needs confident in (0, 1] and share in [0, 1], got {self}.")
        if min(self.neighbours, self.judged, self.bank) < 1:
            raise ValueError(f"SSR counts rows from 1 on, got {self}.")
        self._ids = torch.empty(0, dtype=torch.long)
        self._votes = torch.empty(0, dtype=torch.long)
        self._features = torch.empty(0, 0)

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k of the rows that are kept, with their labels after relabelling."""
        drawn = draw_rows(len(pool), self.judged * k, generator, pool.labels.device)
        rows = trainable(pool, drawn)
        if not len(rows):
            return Picks(rows)
        features, probabilities = view.features_and_probabilities(pool.inputs[rows])
        finite = features.isfinite().all(dim=1) & probabilities.isfinite().all(dim=1)
        rows, features, probabilities = rows[finite], features[finite], probabilities[finite]
        if not len(rows):
            return Picks(rows)
        labels = relabel(probabilities, pool.labels[rows], self.confident)
        features = functional.normalize(features.float(), dim=1)
        self._remember(pool.ids[rows], labels, features)
        classes = probabilities.shape[1]
        ratio = self._ratio(features, labels, classes)
        kept = (ratio >= min(self.share, ratio.max().item())).nonzero()[:, 0]
        taken = kept[draw_balanced(labels[kept], min(k, len(kept)), generator)]
        targets = functional.one_hot(labels[taken], classes).to(probabilities.dtype)
        return Picks(rows[taken], targets=targets)

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Forget the votes of these rows, which may be for another label."""
        self.remove(ids)

    def remove(self, ids: Tensor) -> None:
        """Forget the votes of these rows."""
        self._keep(~torch.isin(self._ids, ids.to(self._ids.device)))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the bank: ids, labels voted for, features of length 1; the oldest row first."""
        return {"ids": self._ids, "votes": self._votes, "features": self._features}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._ids, self._votes, self._features = (
            state[name] for name in ("ids", "votes", "features")
        )

    def _remember(self, ids: Tensor, labels: Tensor, features: Tensor) -> None:
        """Add rows to the bank in place of what it has of them, and drop the oldest over `bank`."""
        if not len(self._ids):
            self._ids, self._votes, self._features = ids[:0], labels[:0], features[:0]
        self._keep(~torch.isin(self._ids, ids))
        pairs = ((self._ids, ids), (self._votes, labels), (self._features, features))
        self._ids, self._votes, self._features = (
            torch.cat(pair)[-self.bank :].clone() for pair in pairs
        )

    def _keep(self, marked: Tensor) -> None:
        self._ids, self._votes = self._ids[marked], self._votes[marked]
        self._features = self._features[marked] if len(self._features) else self._features

    def _ratio(self, features: Tensor, labels: Tensor, classes: int) -> Tensor:
        """Return the votes for each row's label as a share of those for the first choice."""
        voters = min(self.neighbours, max(1, len(self._ids) // classes))
        nearest = (features @ self._features.T).topk(voters, dim=1).indices
        votes = functional.one_hot(self._votes[nearest], classes).sum(dim=1).float()
        votes = votes / torch.bincount(self._votes, minlength=classes).clamp_min(1)
        own = votes.gather(1, labels[:, None])[:, 0]
        return own / votes.max(dim=1).values


def relabel(probabilities: Tensor, labels: Tensor, confident: float) -> Tensor:
    """Return the predicted class of each row whose probability is above `confident`."""
    highest, predicted = probabilities.max(dim=1)
    return torch.where(highest > confident, predicted, labels)


def draw_balanced(labels: Tensor, k: int, generator: Generator) -> Tensor:
    """Return k positions, drawn without replacement, each class as often as another at first."""
    here = labels.cpu()
    weights = 1 / torch.bincount(here)[here]
    return torch.multinomial(weights, k, generator=generator).to(labels.device)
