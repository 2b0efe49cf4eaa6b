"""Settings of a run on pictures or texts that follow their number and size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tamis.sources import Table
from tamis.sources.schema import EncodedText, Text
from tamis.training.augment import Augment, DropTokens, ShiftAndFlip
from tamis.training.defaults import TableSettings

HELD_BYTES = 2**30
SHIFTED = 14


@dataclass(frozen=True)
class PictureSettings(TableSettings):
    """How so many pictures of a shape are trained on, in minutes on a CPU.

    - k is the square root of the number of pictures, from 32 to 64.
    - Every picture is picked 10 times on average, in 200 slots at the least and 200,000 picks at
      the most, or one for each picture where there are more. It is shifted each time, by up to a
      14th of its side: without that, wrong labels were learned by heart.
    - A selector looks at 4 times as many pictures as it picks: a pass through a convolutional
      network is most of the cost of a slot.
    - Pictures arrive in the first quarter of the slots. As many are held as fit into a gigabyte.
    """

    passes: ClassVar[int] = 10
    most_picks: ClassVar[int] = 200_000
    most_k: ClassVar[int] = 64
    shape: tuple[int, ...] = (3, 32, 32)
    rate: float = 0.001
    weight_decay: float = 0.05

    @property
    def pool_size(self) -> int:
        """Rows that a selector sees."""
        return 4 * self.k

    @property
    def capacity(self) -> int:
        """Rows held."""
        return max(1, min(self.rows, HELD_BYTES // math.prod(self.shape)))

    @property
    def augment(self) -> Augment:
        """Shifts of pictures; none are mirrored, as letters and digits must not be."""
        return ShiftAndFlip(max(1, round(min(self.shape[-2:]) / SHIFTED)), flip=False)


@dataclass(frozen=True)
class TextSettings(TableSettings):
    """How texts of n-grams are trained on: as tables, but each time with half of the n-grams.

    Without that, wrong labels were learned by heart, by n-grams that are in one text alone.
    """

    @property
    def augment(self) -> Augment:
        """Half of the n-grams left out."""
        return DropTokens(0.5)


@dataclass(frozen=True)
class FeatureSettings(TableSettings):
    """How rows of features are trained on, which a larger model has made: by a perceptron."""

    rate: float = 0.001
    weight_decay: float = 0.01


def settings_for(table: Table) -> TableSettings:
    """Return the settings for a table, by the kinds of its inputs."""
    kinds = {column.kind for column in table.schema.inputs}
    if table.has_pictures:
        return PictureSettings(table.rows, shape=table.input_shape)
    if kinds == {EncodedText.kind}:
        return FeatureSettings(table.rows)
    return TextSettings(table.rows) if kinds == {Text.kind} else TableSettings(table.rows)
