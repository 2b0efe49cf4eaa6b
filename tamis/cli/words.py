"""The nearest word to one that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def suggest(word: str, known: Sequence[str]) -> str:
    """Return a question about the nearest known word; empty where none is near.

    >>> suggest("trian", ["list", "train"])
    '; did you mean train?'
    """
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""
