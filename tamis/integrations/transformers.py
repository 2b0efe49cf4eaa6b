"""Hugging Face: a Trainer whose loss is that of the rows that are picked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tamis.integrations.sieve import Sieve
from tamis.losses import cross_entropy

try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ModuleNotFoundError:
    raise ImportError(
        "tamis.integrations.transformers needs transformers: pip install 'tamis[hf]'"
    ) from None

FILE = "sieve.pt"
"""The sieve's state, in the folder of a checkpoint."""
UNUSED = "The column of ids would be removed as unused: set remove_unused_columns=False."


class SieveTrainer(Trainer):
    """Picks rows of every training batch where the loss is computed, with the model as it is then.

    The loss is the mean cross entropy of the picks, whatever loss the model has. `ids` names the
    column of the dataset by which rows are known when they come again; the model never sees it.
    The sieve is that of the model. Its state is saved with every checkpoint, and restored by
    `train(resume_from_checkpoint=...)`.
    """

    loss_is_scaled_for_ga = False  # a mean over picks: to be divided where gradients accumulate

    def __init__(self, *args: Any, sieve: Sieve, ids: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if ids is not None and self.args.remove_unused_columns:
            raise ValueError(UNUSED)
        sieve.check_model(self.accelerator.unwrap_model(self.model))
        self.sieve = sieve
        self.ids = ids
        self.model_accepts_loss_kwargs = False  # what older versions go by instead
        self.add_callback(SieveSaver(sieve))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Pick, and compute the loss of the picks; in evaluation, that of all rows."""
        ids = inputs.pop(self.ids, None) if self.ids else None
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs["labels"]
        columns = {name: part for name, part in inputs.items() if isinstance(part, Tensor)}
        del columns["labels"]
        picks = self.sieve.pick(columns, labels, ids)
        outputs = model(**{name: part[picks.rows] for name, part in columns.items()})
        targets = labels[picks.rows] if picks.targets is None else picks.targets
        losses = cross_entropy(outputs.logits, targets)
        loss = (losses if picks.weights is None else losses * picks.weights).mean()
        return (loss, outputs) if return_outputs else loss

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Predict, without the ids."""
        inputs = {name: part for name, part in inputs.items() if name != self.ids}
        return super().prediction_step(model, inputs, *args, **kwargs)

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Train; the sieve's state is restored from the checkpoint that is resumed from."""
        folder = resume_from_checkpoint
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)
        if folder:
            self.sieve.load_state_dict(torch.load(Path(folder) / FILE, weights_only=True))
        return super().train(resume_from_checkpoint, *args, **kwargs)


class SieveSaver(TrainerCallback):
    """Updates the sieve after each step, and saves it with each checkpoint."""

    def __init__(self, sieve: Sieve) -> None:
        self.sieve = sieve

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Take in the model's weights."""
        self.sieve.update()

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Save the sieve beside the model."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        torch.save(self.sieve.state_dict(), folder / FILE)
