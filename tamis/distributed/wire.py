"""What the first rank and the others send each other: tensors by name, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.sources.rejects import abbreviate

LENGTH = 8
"""Bytes of the length of the JSON, which comes first."""


class Message(NamedTuple):
    """JSON and tensors by name."""

    content: Any
    tensors: Mapping[str, Tensor]


def encode(message: Message) -> Tensor:
    """Return a message as bytes."""
    from safetensors.torch import save

    text = json.dumps(message.content, default=abbreviate).encode()
    tensors = {name: part.detach().cpu().clone() for name, part in message.tensors.items()}
    sent = len(text).to_bytes(LENGTH, "little") + text + (save(tensors) if tensors else b"")
    return torch.from_numpy(np.frombuffer(sent, np.uint8).copy())


def decode(sent: Tensor) -> Message:
    """Return the message that bytes are."""
    from safetensors.torch import load

    raw = sent.numpy().tobytes()
    end = LENGTH + int.from_bytes(raw[:LENGTH], "little")
    return Message(json.loads(raw[LENGTH:end]), load(raw[end:]) if len(raw) > end else {})


def pack_rows(prefix: str, rows: Samples) -> dict[str, Tensor]:
    """Return the columns of rows by names that begin with a prefix."""
    return {f"{prefix}/{name}": part for name, part in rows.columns().items()}


def unpack_rows(messages: Sequence[Message]) -> dict[int, Samples]:
    """Return the rows of each shard, by its number and in that order."""
    found: dict[int, dict[str, Tensor]] = {}
    for message in messages:
        for name, part in message.tensors.items():
            shard, slash, column = name.partition("/")
            if slash:
                found.setdefault(int(shard), {})[column] = part
    return {shard: Samples(**found[shard]) for shard in sorted(found)}
