"""A selector in a training loop of your own: digits, 40% of whose labels are wrong."""

from zlib import crc32

import torch
from torch import Generator
from torch.nn.functional import cross_entropy

from tamis import Average, ModelView, Naive, Plausible, Selector, pick
from tamis.models import mlp, start
from tamis.streams import Symmetric, digits

data = digits()
inputs, labels, _ = Symmetric(10).spoil(
    data.inputs, data.labels, noise_rate=0.4, generator=Generator().manual_seed(0)
)


def train(selector: Selector) -> tuple[float, int]:
    """Train on 64 picks of every 256 rows; return the accuracy, and a checksum of the picks."""
    model = start(mlp, data.input_shape, classes=10, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    generator, average, chain = Generator().manual_seed(0), Average(0.99), 0
    for _ in range(15):
        for ids in torch.arange(len(labels)).split(256):
            x, y = inputs[ids], labels[ids]
            picks = pick(selector, model, x, y, 64, generator, ids, average)
            targets = y[picks.rows] if picks.targets is None else picks.targets
            optimizer.zero_grad()
            cross_entropy(model(x[picks.rows]), targets).backward()
            optimizer.step()
            average.update(model)
            chain = crc32(ids[picks.rows].numpy().tobytes(), chain)
    found = ModelView(model, average).logits(data.test_inputs).argmax(dim=1)
    return (found == data.test_labels).float().mean().item(), chain


naive, _ = train(Naive())
accuracy, chain = train(Plausible())
print(f"naive: accuracy {naive:.3f}")
print(f"accuracy {accuracy:.3f}, picks {chain:08x}")
