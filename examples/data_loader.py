"""A DataLoader of pools, read ahead by a worker, and the picks of each: as plain_loop.py."""

import torch
from torch import Generator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from tamis import Sieve
from tamis.integrations import Columns, SieveLoader
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)
pools = DataLoader(
    TensorDataset(inputs, labels, torch.arange(len(labels))), batch_size=256, num_workers=1
)
model = start(mlp, data.input_shape, classes=10, seed=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
sieve = Sieve(model, k=64)

for _ in range(15):
    for x, targets, _ in SieveLoader(pools, sieve, Columns(ids=2)):
        optimizer.zero_grad()
        cross_entropy(model(x), targets).backward()
        optimizer.step()

found = sieve.averaged.logits(data.test_inputs).argmax(dim=1)
accuracy = (found == data.test_labels).float().mean().item()
print(f"accuracy {accuracy:.3f}, picks {sieve.checksum:08x}")
