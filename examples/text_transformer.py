"""Tokenised text through a small transformer, half of the labels wrong: integers, no gradient.

A made-up language: what a text is about follows from two words that stand beside each other, each
of which is found alone in other texts.
"""

import torch
from torch import Generator, Tensor, nn

from tamis import Naive, Plausible, Replay, Selector, Sliding, Trainer
from tamis.models import start
from tamis.streams import Symmetric

WORDS, LENGTH, TOPICS = 30, 12, 4


def write(count: int, rng: Generator) -> tuple[Tensor, Tensor]:
    """Write texts of 6 to 12 words, 0 where there is none; return also what they are about."""
    topics = torch.randint(TOPICS, (count,), generator=rng)
    texts = torch.randint(2 * TOPICS + 1, WORDS, (count, LENGTH), generator=rng)
    at = torch.randint(5, (count,), generator=rng)
    rows = torch.arange(count)
    texts[rows, at], texts[rows, at + 1] = 1 + topics, 1 + TOPICS + topics
    lengths = torch.randint(6, LENGTH + 1, (count, 1), generator=rng)
    return texts * (torch.arange(LENGTH) < lengths), topics


class Reader(nn.Module):
    """Embeds words and places, reads them once, and classifies the mean of what was read."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, TOPICS)

    def forward(self, texts: Tensor) -> Tensor:
        """Return logits; words that are none are masked."""
        none = texts == 0
        read = self.layer(self.words(texts) + self.places, src_key_padding_mask=none)
        read = read.masked_fill(none[..., None], 0)
        return self.head(read.sum(dim=1) / (~none).sum(dim=1, keepdim=True))


def accuracy(selector: Selector) -> float:
    """Go through a stream of 1,500 texts, and test on 500 others."""
    torch.manual_seed(0)  # dropout
    texts, topics = write(2000, Generator().manual_seed(0))
    model = start(lambda *_: Reader(), (LENGTH,), TOPICS, seed=0)
    stream = Replay(
        texts[:1500], topics[:1500], Symmetric(TOPICS), lambda _: 0.5, slots=300, rows_per_slot=5
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    trainer = Trainer(model, optimizer, selector, Sliding(1500), k=32, window="average")
    for _ in trainer.run(stream):
        pass
    return trainer.accuracy(texts[1500:], topics[1500:]).ema


print(f"text: accuracy naive {accuracy(Naive()):.3f}, tamis {accuracy(Plausible()):.3f}")
