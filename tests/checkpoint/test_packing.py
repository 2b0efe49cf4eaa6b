"""Tensors as bytes: what safetensors reads back."""

from __future__ import annotations

import torch
from safetensors.torch import load

from tamis.checkpoint.packing import encode_tensors


def test_tensors_of_any_stride_are_written() -> None:
    columns = torch.quantile(torch.arange(40.0)[:, None], torch.linspace(0, 1, 5), dim=0)
    tensors = {
        "one number, of a stride of 5": columns[2],
        "one row": columns.T,
        "part": torch.arange(10.0).reshape(5, 2)[2:3, 1:2],
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "scalar": torch.tensor(3.0),
        "nothing": torch.empty(0, 2),
    }
    read = load(b"".join(map(bytes, encode_tensors(tensors))))
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
