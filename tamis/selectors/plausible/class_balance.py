"""Class shares that follow those of the given labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states


@dataclass(kw_only=True)
class ClassBalance:
    """Scales votes and predictions so that each class is as frequent as its label is.

    Otherwise a class that drops out of the picks is predicted less and less, and never returns.

    Parameters
    ----------
    pace: share of the newest slot in running means.
    least_share: shares of votes and predictions below it are taken for it; bounds the scale.
    """

    pace: float = 0.05
    least_share: float = 1e-3

    def __post_init__(self) -> None:
        self._given, self._voted, self._predicted = (RunningMean(self.pace) for _ in range(3))

    def update(
        self, label_shares: Tensor, votes: Tensor, probabilities: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return votes and probabilities, scaled by running shares that count these rows."""
        scaled = self.update_votes(label_shares, votes, weights)
        self._predicted.update(weights @ probabilities)
        return scaled, self._scale(probabilities, self._predicted)

    def update_votes(self, label_shares: Tensor, votes: Tensor, weights: Tensor) -> Tensor:
        """Return votes alone, scaled by running shares that count these rows."""
        self._given.update(label_shares)
        self._voted.update(weights @ votes)
        return self._scale(votes, self._voted)

    def scale(self, votes: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return votes and probabilities, scaled by the running shares as they are."""
        return self._scale(votes, self._voted), self._scale(probabilities, self._predicted)

    def grow(self, classes: int) -> None:
        """Add classes that no label had so far, up to so many."""
        for mean in self._means().values():
            mean.grow(classes)

    def state_dict(self) -> State:
        """Return the running shares; nothing before the first slot."""
        return join_states(self._means())

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._means(), state)

    def _means(self) -> dict[str, RunningMean]:
        return {"given": self._given, "voted": self._voted, "predicted": self._predicted}

    def _scale(self, rows: Tensor, running: RunningMean) -> Tensor:
        given, share = self._given.value, running.value
        if given is None or share is None:
            raise ValueError("There are no shares before the first slot.")
        rows = rows * (given / share.clamp_min(self.least_share))
        return rows.div_(rows.sum(dim=1, keepdim=True).clamp_min(1e-9))
