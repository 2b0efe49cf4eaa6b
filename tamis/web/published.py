"""The model that a service predicts with: a copy of the averaged weights, between two slots."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.checkpoint import State
from tamis.model_view import ModelView
from tamis.model_view.memory import state_of
from tamis.training.protocol import RecordedTrainer


class Copy:
    """A copy of a model, which one thread at a time uses."""

    def __init__(self, trainer: RecordedTrainer) -> None:
        self.view = ModelView(trainer.best_model())
        self.slot = trainer.slots
        self.lock = Lock()

    def has_shape(self, state: State) -> bool:
        """Return whether weights have the names and shapes of this copy."""
        own = state_of(self.view.model)
        return {name: value.shape for name, value in own.items()} == {
            name: value.shape for name, value in state.items()
        }

    @torch.no_grad()
    def copy(self, state: State, slot: int) -> None:
        """Take over weights."""
        for name, value in state_of(self.view.model).items():
            value.copy_(state[name])
        self.slot = slot


class Prediction(NamedTuple):
    """Probabilities of each class, (rows, classes), and the slots that the model was trained."""

    probabilities: Tensor
    slots: int


class PublishedModel:
    """A copy of a trainer's averaged weights, that another thread predicts with.

    There are two copies. `publish` writes to the one that is not in use, then exchanges them, so
    that neither thread waits for the other. Call it between two slots, in the trainer's thread.
    """

    def __init__(self, trainer: RecordedTrainer) -> None:
        self.trainer = trainer
        self._current, self._spare = Copy(trainer), Copy(trainer)

    @property
    def slots(self) -> int:
        """Slots after which the model was copied."""
        return self._current.slot

    def publish(self) -> bool:
        """Copy the weights; return whether they are used from now on.

        They are not while somebody still predicts with the older copy: then the next call does.
        """
        spare = self._spare
        if not spare.lock.acquire(blocking=False):
            return False
        try:
            state = averaged_state(self.trainer)
            if spare.has_shape(state):
                spare.copy(state, self.trainer.slots)
                self._current, self._spare = spare, self._current
            else:  # there is a class more
                self._current, self._spare = Copy(self.trainer), Copy(self.trainer)
        finally:
            spare.lock.release()
        return True

    def predict(self, inputs: Tensor) -> Prediction:
        """Return the probability of each class for encoded rows."""
        copy = self._current
        with copy.lock:
            kind = next(copy.view.model.parameters())
            found = copy.view.probabilities(inputs.to(kind.device, kind.dtype))
            return Prediction(found.float().cpu(), copy.slot)


def averaged_state(trainer: RecordedTrainer) -> State:
    """Return the averaged weights, or the weights where no average is kept, not copied."""
    own = state_of(trainer.model)
    return own | (trainer.average.states(trainer.model)[0] if trainer.average else {})
