"""A saved model comes back equal, and a damaged one gets a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tamis.checkpoint import load_model, save_model, write_atomically
from tamis.models import mlp, resnet18


def test_a_model_comes_back(tmp_path: Path) -> None:
    saved, loaded = resnet18((3, 8, 8), 4).eval(), resnet18((3, 8, 8), 4).eval()
    save_model(saved, tmp_path / "model.safetensors", {"classes": ["a", "b"], "slots": 7})
    about = load_model(loaded, tmp_path / "model.safetensors")
    assert about == {"classes": ["a", "b"], "slots": 7}
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(saved(images), loaded(images))


def test_damage_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match="model"):
        load_model(mlp((2,), 2), path)
    save_model(mlp((2,), 2), path, {})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="no model file"):
        load_model(mlp((2,), 2), path)


def test_an_atomic_write_replaces_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
