"""A skorch classifier that trains on picks: as plain_loop.py, then cross-validated."""

import torch
from sklearn.model_selection import cross_val_score
from torch import Generator, nn

from tamis.integrations.skorch import SieveNet
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)


def module() -> nn.Module:
    """Return a network whose outputs are logits."""
    return start(mlp, data.input_shape, classes=10, seed=0)


net = SieveNet(
    module,
    k=64,
    batch_size=256,
    max_epochs=15,
    lr=0.3,
    optimizer=torch.optim.SGD,
    train_split=None,
    verbose=0,
)
scores = cross_val_score(net, inputs.numpy(), labels.numpy(), cv=2)
net.fit(inputs.numpy(), labels.numpy())

found = net.sieve_.averaged.logits(data.test_inputs).argmax(dim=1)
accuracy = (found == data.test_labels).float().mean().item()
print(f"cross-validated against labels 60% of which are right: {scores.mean():.2f}")
print(f"accuracy {accuracy:.3f}, picks {net.sieve_.checksum:08x}")
