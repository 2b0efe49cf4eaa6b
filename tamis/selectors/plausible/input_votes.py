"""Votes of rows that are similar in their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tamis.selectors.plausible.candidates import Candidates, in_range, in_usual_range
from tamis.selectors.plausible.class_balance import ClassBalance
from tamis.selectors.plausible.neighbours import Neighbours
from tamis.selectors.plausible.running import Part, State, join_states, load_states

EVERY = 4
"""Slots from one vote to the next."""


@dataclass(kw_only=True)
class InputVotes:
    """Votes for the class of each row, by the given labels of rows of similar inputs.

    Features are trained on the labels that they are to judge: votes and predictions, both of the
    same features, may agree on what is wrong. What makes inputs similar, no label has taught.
    These votes are weaker, and judge no row: whether labels or evidence agree with them more often
    is what counts (`Agreements`).

    Inputs of more than 64 numbers are projected on so many random directions, the same in every
    run. Integers that are no pixels, as those of tokens, are names: of them there are no votes.

    They feed running means alone, and so are cast in every fourth slot: an average over many slots
    is as good.

    Parameters
    ----------
    neighbours: the voters; all count the same.
    class_balance: scales votes so that no class is lost.
    """

    neighbours: Neighbours = field(default_factory=Neighbours)
    class_balance: ClassBalance = field(default_factory=ClassBalance)

    def __post_init__(self) -> None:
        self._slots = 0

    @property
    def due(self) -> bool:
        """Whether there are votes in the next slot."""
        return self._slots % EVERY == 0

    def update(self, candidates: Candidates, ids: Tensor) -> Tensor | None:
        """Add the rows as voters, and return the votes for each.

        None in a slot without votes, and where inputs are names.
        """
        due, self._slots = self.due, self._slots + 1
        if not due or not candidates.inputs.shape[1]:
            return None
        inputs, usable = candidates.inputs, candidates.usable
        here = inputs.device.type == "cpu"  # elsewhere it would have to be waited for
        if not (here and bool(usable.all()) and in_usual_range(inputs)):
            inputs = inputs.masked_fill(~usable[:, None], 0)
            usable = usable & in_range(inputs, usable)
            inputs = inputs.masked_fill(~usable[:, None], 0)
        rows = candidates._replace(features=inputs, usable=usable)
        votes, _ = self.neighbours.update(rows, ids, 1.0)
        return self.class_balance.update_votes(rows.label_shares(), votes, rows.weights())

    def grow(self, classes: int) -> None:
        """Add classes that no label had so far, up to so many."""
        self.class_balance.grow(classes)

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Change the labels of the voters of these ids."""
        self.neighbours.relabel(ids, labels)

    def remove(self, ids: Tensor) -> None:
        """Take the vote from the voters of these ids."""
        self.neighbours.remove(ids)

    def state_dict(self) -> State:
        """Return the voters and the running shares; nothing before the first slot."""
        if not self._slots:
            return {}
        return join_states(self._parts()) | {"slots": torch.tensor(self._slots)}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        load_states(self._parts(), state)
        self._slots = int(state.get("slots", 0))

    def _parts(self) -> dict[str, Part]:
        return {"neighbours": self.neighbours, "class_balance": self.class_balance}
