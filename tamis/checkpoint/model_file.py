"""A model in one file, for whoever wants to predict with it."""

from __future__ import annotations

import json
from pathlib import Path

from torch import nn

from tamis.checkpoint.files import write_atomically


def save_model(model: nn.Module, path: Path, about: dict[str, object]) -> None:
    """Write a model's tensors and, as JSON in the header, the information to read it by."""
    from safetensors.torch import save

    tensors = {name: value.contiguous().cpu() for name, value in model.state_dict().items()}
    write_atomically(path, save(tensors, metadata={"tamis": json.dumps(about)}))


def load_model(model: nn.Module, path: Path) -> dict[str, object]:
    """Fill a model of the same make from a file, and return what was written about it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            about = json.loads((file.metadata() or {}).get("tamis", "{}"))
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} is no model file that can be read: {error}.") from None
    return dict(about)
