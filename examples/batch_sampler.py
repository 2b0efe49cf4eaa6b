"""A batch sampler that yields the indices of picks: exact without workers, stale with them."""

import torch
from torch import Generator
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from tamis import Plausible, Sieve
from tamis.integrations import SieveSampler
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)
rows = TensorDataset(inputs, labels)
model = start(mlp, data.input_shape, classes=10, seed=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

sieve = Sieve(model, k=64, selector=Plausible(pseudo_labels=False))  # indices carry no targets
pools = BatchSampler(SequentialSampler(rows), batch_size=256, drop_last=False)
loader = DataLoader(rows, batch_sampler=SieveSampler(pools, rows, sieve))

for _ in range(15):
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()

found = sieve.averaged.logits(data.test_inputs).argmax(dim=1)
accuracy = (found == data.test_labels).float().mean().item()
print(f"accuracy {accuracy:.3f}, picks {sieve.checksum:08x}")
