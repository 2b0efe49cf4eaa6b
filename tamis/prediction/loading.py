"""A predictor from the folder of a run, or from the file of a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tamis.checkpoint import Checkpoints, read_model
from tamis.prediction.predictor import Predictor
from tamis.prediction.rebuilding import Factory, ModelFileError, rebuild
from tamis.runs import RunFiles
from tamis.sources.schema import Array, Schema

COMPARED = 1000
"""Rows of a run that an exported model is compared on."""


def load(
    path: str | Path,
    *,
    model: Factory | nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> Predictor:
    """Return the predictor of a run's folder, or of its model.safetensors alone.

    The file has weights (the averaged ones, which the run reports), schema and class names, and
    which model of tamis it is; no pickle, and no code. A model of your own is passed as `model`:
    the function of input shape and number of classes that builds it, or such a model.
    """
    file, held = Path(path), None
    if file.is_dir():
        held = partial(Checkpoints(file / RunFiles.checkpoints).read_held, COMPARED)
        file /= RunFiles.model
        if not file.exists():
            raise ModelFileError(
                f"{path} has no {RunFiles.model}: a run writes it when it ends (after a crash,"
                " resume it)."
            )
    tensors, about = read_model(file)
    try:
        schema = schema_of(about)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{file} has no classes to predict, or no shape: {error}.") from None
    layout = schema.layout if about.get("schema") else None
    built = rebuild(about, tensors, schema.input_shape, len(schema.classes), layout, model)
    return Predictor(built.to(device), schema, about, held)


def schema_of(about: Mapping[str, Any]) -> Schema:
    """Return the schema of a model's file; without one, rows are arrays of the model's shape."""
    if about.get("schema"):
        return Schema.from_json(about["schema"])
    shape, classes = tuple(about["input_shape"]), tuple(about["classes"])
    if not classes or prod(shape) < 1 or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"shape {shape}, {len(classes)} classes")
    return Schema((Array("inputs", shape),), classes=classes)
