"""A model in one file, for whoever wants to predict with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tamis.checkpoint.files import DamagedFileError, write_atomically


def save_model(model: nn.Module, path: Path, about: dict[str, object]) -> None:
    """Write a model's tensors and, as JSON in the header, the information to read it by."""
    from safetensors.torch import save

    tensors = {name: value.contiguous().cpu() for name, value in model.state_dict().items()}
    write_atomically(path, save(tensors, metadata={"tamis": json.dumps(about)}))


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a model's file, and what was written about them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads((file.metadata() or {}).get("tamis", "{}"))
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is not a readable model file: {error}.") from None
    return tensors, about if isinstance(about, dict) else {}


def load_model(model: nn.Module, path: Path) -> dict[str, Any]:
    """Fill a model of the same make from a file, and return what was written about it."""
    tensors, about = read_model(path)
    model.load_state_dict(tensors)
    return about
