"""Texts as features of a model of Hugging Face, which is not trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tamis.sources.hugging_face import quiet, short
from tamis.sources.validation import BadInputError

BATCH = 32
MOST_TOKENS = 256
"""Tokens of a text that are read: more takes long on a CPU."""
KEPT_BYTES = 2**28
"""Bytes of features that are kept, so that a text is not encoded at every reading."""
DIGITS = 4
"""Decimals of a feature, so that it does not depend on the texts that it was encoded beside."""


class TextEncoder:
    """The mean of the last hidden states of a text's tokens, from a model with fixed weights."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        self.tokenizer = tokenizer
        self.model = model.eval().requires_grad_(False)
        self.width = int(model.config.hidden_size)
        longest = getattr(model.config, "max_position_embeddings", None) or MOST_TOKENS
        self.tokens = min(MOST_TOKENS, int(longest), int(tokenizer.model_max_length))
        self._known: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return one row of features for each text; zeros for one that is empty."""
        found = np.zeros((len(texts), self.width), np.float32)
        new = sorted({text for text in texts if text and text not in self._known}, key=len)
        made: dict[str, np.ndarray] = {}
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            made.update(zip(part, self._encode(part), strict=True))
        for row, text in enumerate(texts):
            if text:
                found[row] = self._known[text] if text in self._known else made[text]
        room = KEPT_BYTES // found[:1].nbytes - len(self._known) if len(texts) else 0
        self._known.update(list(made.items())[: max(0, room)])
        return found

    @torch.no_grad()
    def _encode(self, texts: list[str]) -> np.ndarray:
        fed = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.tokens, return_tensors="pt"
        )
        states = self.model(**fed).last_hidden_state
        mask = fed["attention_mask"][:, :, None].to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)
        rounded: np.ndarray = mean.float().numpy().round(DIGITS)
        return rounded


@cache
def load_encoder(name: str) -> TextEncoder:
    """Return an encoder by its name on the hub, or its folder; raise in one sentence."""
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError:
        raise BadInputError(
            "An encoder needs the library transformers: pip install 'tamis[hf]'."
        ) from None
    try:
        disable_progress_bar()
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(name)
            return TextEncoder(tokenizer, AutoModel.from_pretrained(name))
    except Exception as error:  # of the network, of the hub, of damaged files
        raise BadInputError(
            f"The encoder {name} cannot be had ({short(error)}): name a folder, or a model of the"
            " hub that encodes text."
        ) from None


def place_of(encoder: str) -> str:
    """Return a folder by its full path, another name as it is."""
    return str(Path(encoder).resolve()) if Path(encoder).is_dir() else encoder
