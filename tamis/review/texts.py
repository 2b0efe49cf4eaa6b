"""Many texts as one tensor: a checkpoint has room for numbers, and little for words."""

from __future__ import annotations

import json
from collections.abc import Iterable

import torch
from torch import Tensor


def pack_texts(texts: Iterable[str]) -> Tensor:
    """Write texts as bytes.

    >>> unpack_texts(pack_texts(["a", "", "b\\0c"]))
    ['a', '', 'b\\x00c']
    """
    return torch.frombuffer(bytearray(json.dumps(list(texts)).encode()), dtype=torch.uint8)


def unpack_texts(packed: Tensor) -> list[str]:
    """Read what `pack_texts` wrote."""
    return [str(text) for text in json.loads(packed.cpu().numpy().tobytes())]
