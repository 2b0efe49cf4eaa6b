"""A Lightning module that sees only picks: as plain_loop.py, by a callback."""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from tamis import Sieve
from tamis.integrations import Columns
from tamis.integrations.lightning import SieveCallback
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)
pools = DataLoader(TensorDataset(inputs, labels, torch.arange(len(labels))), batch_size=256)


class Digits(LightningModule):
    """A module like any other: it does not know that its batches are picked."""

    def __init__(self) -> None:
        super().__init__()
        self.net = start(mlp, data.input_shape, classes=10, seed=0)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.net(x)

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        """Return the loss of a batch."""
        x, targets, _ = batch
        return cross_entropy(self(x), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Descend."""
        return torch.optim.SGD(self.parameters(), lr=0.3)


model = Digits()
sieve = Sieve(model, k=64)
trainer = Trainer(
    max_epochs=15,
    callbacks=[SieveCallback(sieve, Columns(ids=2))],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(model, pools)

found = sieve.averaged.logits(data.test_inputs).argmax(dim=1)
accuracy = (found == data.test_labels).float().mean().item()
print(f"accuracy {accuracy:.3f}, picks {sieve.checksum:08x}")
