"""Columns of text that a model of Hugging Face encodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tamis.sources.schema.cells import Cells, texts_of
from tamis.sources.schema.column import Column, Part
from tamis.sources.text_encoder import load_encoder, place_of


@dataclass(frozen=True)
class EncodedText(Column):
    """Free text as the features of an encoder, which must be at hand for predictions, too."""

    kind: ClassVar[str] = "encoded text"
    part: ClassVar[Part] = "numbers"
    encoder: str = ""
    features: int = 1

    @classmethod
    def infer(cls, name: str, cells: Cells, encoder: str = "") -> Self:
        """Return the column with the number of features that the encoder has."""
        place = place_of(encoder)
        return cls(name, place, load_encoder(place).width)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(f"{self.name} feature {at}" for at in range(self.features))

    def read(self, cells: Cells) -> np.ndarray:
        """Return the features of each text, zeros where there is none."""
        return load_encoder(self.encoder)(texts_of(cells))

    def missing_in(self, values: np.ndarray) -> np.ndarray:
        """Return which texts were empty."""
        return np.asarray(~values.any(axis=1), bool)

    def decode(self, cells: np.ndarray) -> str | None:
        """Return that there is a text: features do not lead back to words."""
        return "(text)" if np.any(cells) else None

    def note(self) -> str:
        """Return the encoder."""
        return f"{self.features} features of {self.encoder}"
