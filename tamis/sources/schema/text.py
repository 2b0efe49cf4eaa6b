"""Columns of free text, as ids of hashed n-grams."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self
from zlib import crc32

import numpy as np

from tamis.sources.schema.cells import Cells, texts_of
from tamis.sources.schema.column import Column, Part

WORD = re.compile(r"\w+")
LETTERS = (3,)
"""Letters of an n-gram in names and other short texts."""
LETTERS_ALONE = (3, 4, 5)
"""Letters of an n-gram in a text that is the only input."""
FEWEST_TOKENS, MOST_TOKENS = 8, 256
MOST_ALONE = 512
"""N-grams of a text that is the only input."""
BUCKETS = 2**16
FEW_WORDS = 3
"""Words on average, below which n-grams are of letters."""


@dataclass(frozen=True)
class Text(Column):
    """Free text: ids of its words and pairs of words, or of triples of letters, in any order.

    `grams` is "words", "letters" or, for a text that is the only input, "both". An id is a checksum
    below `buckets`, the same on every machine; 0 is padding. Of a text with more n-grams than
    `tokens` the first are taken, words before pairs before letters.
    """

    kind: ClassVar[str] = "text"
    part: ClassVar[Part] = "texts"
    grams: str = "words"
    tokens: int = 64
    buckets: int = BUCKETS

    @classmethod
    def infer(cls, name: str, cells: Cells, *, alone: bool = False) -> Self:
        """Return the column with room for the n-grams of 19 texts in 20."""
        texts = [text for text in texts_of(cells) if text]
        grams = "words" if mean_words(texts) >= FEW_WORDS else "letters"
        grams = "both" if alone else grams
        lengths = [len(set(ngrams(text, grams))) for text in texts[:: len(texts) // 5_000 + 1]]
        tokens = int(np.quantile(lengths, 0.95)) if lengths else 0
        most = MOST_ALONE if alone else MOST_TOKENS
        tokens = min(max(-(-tokens // 8) * 8, FEWEST_TOKENS), most)
        return cls(name, grams, tokens)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tokens."""
        return tuple(f"{self.name} token {at}" for at in range(self.tokens))

    def read(self, cells: Cells) -> np.ndarray:
        """Return the ids of each cell's n-grams, each once, padded with 0."""
        found = np.zeros((len(cells), self.tokens), np.float32)
        for row, text in enumerate(texts_of(cells)):
            if text:
                ids = dict.fromkeys(
                    1 + crc32(gram.encode()) % (self.buckets - 1)
                    for gram in ngrams(text, self.grams)
                )
                kept = list(ids)[: self.tokens]
                found[row, : len(kept)] = kept
        return found

    def decode(self, cells: np.ndarray) -> str | None:
        """Return how many n-grams there are: hashes do not lead back to words."""
        count = int(np.count_nonzero(cells))
        return f"({count} n-grams)" if count else None

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return which cells were empty."""
        return np.asarray(values[:, 0] == 0, bool)

    def note(self) -> str:
        """Return the n-grams and the room for them."""
        grams = "words and letters" if self.grams == "both" else self.grams
        return f"{self.tokens} n-grams of {grams}"


def ngrams(text: str, grams: str) -> list[str]:
    """Return words, then pairs of words; or words, then triples of letters; or all of these.

    >>> ngrams("Red red wine", "words")
    ['red', 'red', 'wine', 'red red', 'red wine']
    >>> ngrams("Ann", "letters")
    ['ann', '<an', 'ann', 'nn>']
    """
    words: list[str] = WORD.findall(text.lower()) or [text]
    pairs = [] if grams == "letters" else [f"{one} {two}" for one, two in pairwise(words)]
    if grams == "words":
        return words + pairs
    edged = [f"<{word}>" for word in words]
    sizes = LETTERS if grams == "letters" else LETTERS_ALONE
    return (
        words
        + pairs
        + [
            word[at : at + size]
            for word in edged
            for size in sizes
            for at in range(len(word) - size + 1)
        ]
    )


def mean_words(texts: list[str]) -> float:
    """Return the number of words, on average."""
    return sum(len(text.split()) for text in texts) / max(len(texts), 1)
