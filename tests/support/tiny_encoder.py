"""A model of Hugging Face with random weights and few words, saved to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch


def save_encoder(folder: Path, words: Sequence[str], width: int = 16) -> Path:
    """Write a tokenizer and a model of one layer."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    numbers = {word: at for at, word in enumerate(["[PAD]", "[UNK]", *words])}
    split = Tokenizer(WordLevel(numbers, unk_token="[UNK]"))  # noqa: S106
    split.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=split,
        pad_token="[PAD]",  # noqa: S106
        unk_token="[UNK]",  # noqa: S106
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(numbers), hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder
