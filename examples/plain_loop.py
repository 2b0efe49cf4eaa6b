"""A selector in a training loop of your own: digits, 40% of whose labels are wrong."""

import torch
from torch import Generator
from torch.nn.functional import cross_entropy

from tamis import Naive, Plausible, Selector, Sieve
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).corrupt(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)


def train(selector: Selector) -> tuple[float, int]:
    """Train on 64 picks of every 256 rows; return the accuracy, and a checksum of the picks."""
    model = start(mlp, data.input_shape, classes=10, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    sieve = Sieve(model, 64, selector)
    for _ in range(15):
        for ids in torch.arange(len(labels)).split(256):
            x, targets = sieve(inputs[ids], labels[ids], ids)
            optimizer.zero_grad()
            cross_entropy(model(x), targets).backward()
            optimizer.step()
            sieve.update()
    found = sieve.averaged.logits(data.test_inputs).argmax(dim=1)
    return (found == data.test_labels).float().mean().item(), sieve.checksum


naive, _ = train(Naive())
accuracy, picks = train(Plausible())
print(f"naive: accuracy {naive:.3f}")
print(f"accuracy {accuracy:.3f}, picks {picks:08x}")
