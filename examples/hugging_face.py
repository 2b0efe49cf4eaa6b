"""The Hugging Face Trainer with picks in its loss: as plain_loop.py, by a subclass."""

import tempfile

import torch
from torch import Generator, Tensor, nn
from transformers import TrainingArguments
from transformers.utils import ModelOutput

from tamis import ModelView, Sieve
from tamis.integrations.transformers import SieveTrainer
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)
rows = [{"pixels": inputs[row], "labels": labels[row], "row": row} for row in range(len(labels))]


class Digits(nn.Module):
    """A model that takes inputs by name and returns logits by name, as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = start(mlp, data.input_shape, classes=10, seed=0)

    def forward(self, pixels: Tensor) -> ModelOutput:
        """Return logits; the trainer computes the loss."""
        return ModelOutput(logits=self.net(pixels))


model = Digits()
sieve = Sieve(model, k=64)
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        folder,
        num_train_epochs=15,
        per_device_train_batch_size=256,
        optim="sgd",
        learning_rate=0.3,
        lr_scheduler_type="constant",
        max_grad_norm=0,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,  # the model has no use for "row", the sieve has
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    SieveTrainer(model, settings, train_dataset=rows, sieve=sieve, ids="row").train()

logits = ModelView(model, sieve.average, columns={"pixels": data.test_inputs}).logits(
    torch.arange(len(data.test_labels))[:, None]
)
accuracy = (logits.argmax(dim=1) == data.test_labels).float().mean().item()
print(f"accuracy {accuracy:.3f}, picks {sieve.checksum:08x}")
