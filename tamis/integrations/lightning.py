"""Lightning: a callback that passes only the picked rows to the module."""

from __future__ import annotations

from typing import Any

from tamis.checkpoint import State
from tamis.integrations.columns import Columns
from tamis.integrations.sieve import POSITIONS, Sieve

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.utilities.model_helpers import is_overridden
except ModuleNotFoundError:
    raise ImportError(
        "tamis.integrations.lightning needs lightning: pip install 'tamis[lightning]'"
    ) from None

HOOK = "on_after_batch_transfer"
"""A callback cannot replace a batch; this hook of the module, or of its data module, can."""


class SieveCallback(Callback):
    """Picks rows of every training batch just before the step, with the model as it is then.

    The sieve is that of the module, whose `forward` takes the inputs and returns logits. Its state
    is saved in checkpoints, and restored when `fit` resumes from one.
    """

    def __init__(self, sieve: Sieve, columns: Columns = POSITIONS) -> None:
        self.sieve = sieve
        self.columns = columns
        self._steps = 0
        self._owner: Any = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Wrap the hook with the sieve, on the object that the trainer will call it on."""
        if stage != "fit":
            return
        self.sieve.check_model(pl_module)
        # Lightning calls one of the two: the data module, unless only the module has the hook.
        data: Any = getattr(trainer, "datamodule", None)
        by_module = data is None or (
            is_overridden(HOOK, pl_module) and not is_overridden(HOOK, data)
        )
        owner: Any = pl_module if by_module else data
        before = getattr(owner, HOOK)

        def hook(batch: Any, dataloader_idx: int) -> Any:
            batch = before(batch, dataloader_idx)
            return self.sieve.sift(batch, self.columns) if trainer.training else batch

        setattr(owner, HOOK, hook)
        self._owner = owner

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count steps from the trainer's present one, at the start or after a resume."""
        self._steps = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *_: Any, **__: Any
    ) -> None:
        """Update the sieve, unless gradients are still being accumulated for a step."""
        if trainer.global_step > self._steps:
            self.sieve.update()
        self._steps = trainer.global_step

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Restore the hook."""
        if self._owner is not None:
            delattr(self._owner, HOOK)
            self._owner = None

    def state_dict(self) -> State:
        """Return the sieve's state, for the checkpoint."""
        return self.sieve.state_dict()

    def load_state_dict(self, state_dict: State) -> None:
        """Restore the sieve from a checkpoint."""
        self.sieve.load_state_dict(state_dict)
